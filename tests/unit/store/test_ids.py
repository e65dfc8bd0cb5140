"""The id of a child says whose it is and in which place, however often it is asked for."""

from __future__ import annotations

from uuid import UUID

import pytest

from django_durable_jobs.store.ids import MAX_CHILDREN, family_id, new_id, sibling_id

PARENT = UUID("01936a2b-5f00-7abc-8def-0123456789ab")


def test_a_family_has_the_same_id_however_often_it_is_asked_for():
    assert family_id(PARENT, "ship", 0) == family_id(PARENT, "ship", 0)


def test_the_id_of_a_family_is_the_same_in_every_version():
    """A parent that a newer version resumes must find the children that the older one started."""
    assert str(family_id(PARENT, "ship", 0)) == "01936a2b-5f00-7641-81a2-1f1e89300000"


@pytest.mark.parametrize(
    "other",
    [(new_id(), "ship", 0), (PARENT, "ship ", 0), (PARENT, "ship", 1), (PARENT, "ship\n1", 0)],
    ids=["another parent", "another step", "another generation", "a step with a line break"],
)
def test_no_two_steps_share_a_family(other):
    assert family_id(*other) != family_id(PARENT, "ship", 0)


def test_the_id_of_a_child_is_a_uuid_of_version_7_with_its_parents_time():
    child = sibling_id(family_id(PARENT, "ship", 3), 17)

    assert (child.version, child.variant) == (7, "specified in RFC 4122")
    assert child.int >> 80 == PARENT.int >> 80


def test_the_ids_of_a_family_are_a_range_in_the_order_of_its_children():
    family = family_id(PARENT, "ship", 0)
    ids = [sibling_id(family, index) for index in range(1000)]

    assert ids[0] == family
    assert ids == sorted(ids)
    assert ids[-1].int - ids[0].int == 999


def test_the_last_child_of_a_family_does_not_reach_into_another():
    family = family_id(PARENT, "ship", 0)

    last = sibling_id(family, MAX_CHILDREN - 1)

    assert last.int >> 20 == family.int >> 20
    assert (family.int & (MAX_CHILDREN - 1)) == 0


@pytest.mark.parametrize("index", [-1, MAX_CHILDREN])
def test_a_place_outside_of_a_family_is_refused(index):
    with pytest.raises(ValueError, match=rf"at most 1,048,576 children; this is number {index:,}"):
        sibling_id(family_id(PARENT, "ship", 0), index)
