"""Which statements change something that another database would keep."""

from __future__ import annotations

import pytest

from django_durable_jobs.steps.effects import is_write

READS = [
    "select 1",
    "SELECT * FROM t",
    '  \n\t(SELECT "a" FROM "t") UNION (SELECT 2)',
    "-- all of them\nselect 1",
    "/* of the report */ select 1",
    "/* one */ -- two\n /* three */\nselect 1",
    "/* insert into t */ select 1",
    "select 1 -- then delete it",
    "with recent as (select 1) select * from recent",
    "/* said first */ WITH recent AS (SELECT 1) SELECT * FROM recent",
    'select * from t for update of "t"',
    "with held as (select 1 from t for  update skip locked) select * from held",
    "select * from t for no key\nupdate",
    "select * from t for share",
    "select updated_at, deleted_by, inserted from t",
    'select "update", "delete" from "insert"',
    "select 'delete from t; it''s text'",
    "select `update`, `create` from `delete`",
    "select $$ delete from t $$, $tag$ insert into t $tag$",
    "values (1), (2)",
    "table t",
    "show transaction_isolation",
    "explain select 1",
    "explain (analyze, buffers) select 1",
    'SAVEPOINT "s1"',
    'RELEASE SAVEPOINT "s1"',
    'ROLLBACK TO SAVEPOINT "s1"',
    "set local statement_timeout = 5",
    "declare c cursor for select 1",
    "fetch 10 from c",
    "select 1; -- and no more",
    "set local statement_timeout = 5; select 1",
    "select 'a; drop table t', E'it\\'s; drop table t', $$ ; drop table t $$",
]

WRITES = [
    "insert into t values (1)",
    "  UPDATE t SET a = 1",
    "delete from t",
    "-- tidy up\ndelete from t",
    "/* select */ delete from t",
    "merge into t using s on true when matched then delete",
    "with gone as (delete from t returning 1) select * from gone",
    "/* a */ with new as (insert into t values (1) returning 1) select * from new",
    "with changed as (\n  update t set a = 1 returning 1\n) select 1",
    "with a as (select 1) insert into t select * from a",
    "select 1 into copy",
    "explain analyze delete from t",
    "truncate t",
    "create table t ()",
    "drop table t",
    "alter table t add column a int",
    "copy t from stdin",
    "call tidy()",
    "do $$ begin delete from t; end $$",
    "replace into t values (1)",
    "notify jobs",
    "lock table t",
    "vacuum t",
    "select 1; truncate t",
    "(select 1) ; drop table t;",
    "set local statement_timeout = 5; call tidy()",
    "begin; copy t from stdin",
    "select E'\\'' as quote; truncate t",
    "select E'\\'' from t where a = 1; delete from t where a = ''",
    "explain analyze create table t as select 1",
    "",
]


@pytest.mark.parametrize("sql", READS)
def test_a_read_is_let_through(sql):
    assert not is_write(sql)


@pytest.mark.parametrize("sql", WRITES)
def test_a_write_is_told_wherever_it_stands(sql):
    assert is_write(sql)
