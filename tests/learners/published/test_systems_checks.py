"""Every system passes the common suite of checks that methods pass, where it applies."""

import pytest
from quick_parts import spec_for_checks

from estimator_rules import RULES
from subspan import checks
from subspan.learners.registry import list_systems, method_class, method_options
from subspan.learners.training.trained_system import TrainedSystem

SPECS = {name: name for name in list_systems()} | {"ranpac": "ranpac:width=150,samples=30"}
# Transformed statistics are drawn from all base classes, and a regression weighs all classes against each other:
# without a class, the scores of the others change. A trained part belongs to all base classes it was trained with.
EXCEPT = {
    (name, "check_remove_class")
    for name in SPECS
    if "factors" in method_options(name) or issubclass(method_class(name), TrainedSystem)
} | {("semantic-distill", "check_kinds_of_arrays")}  # nor to classes of other names, whose word vectors are others


@pytest.mark.parametrize(
    ("system", "check"),
    [
        (name, check)
        for name in SPECS
        for check in (*checks.list_checks(), *RULES)
        if (name, check.__name__) not in EXCEPT
    ],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_system(system, check):
    check(spec_for_checks(SPECS[system]))


@pytest.mark.parametrize("system", ["fecam", "calibrated-fecam"])
def test_without_a_transformation_classes_are_scored_one_by_one(system):
    checks.check_remove_class(f"{system}:tukey=1")
