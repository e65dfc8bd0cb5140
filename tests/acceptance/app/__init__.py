"""Jobs for the tests of workers, and what those write down."""
