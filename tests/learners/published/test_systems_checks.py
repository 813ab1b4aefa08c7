"""Every system passes the common suite of checks that methods pass, where it applies."""

import pytest
from quick_parts import spec_for_checks

from subspan import checks
from subspan.learners.parts.session_training import SessionTrainedSystem
from subspan.learners.parts.system import TrainedSystem
from subspan.learners.registry import list_systems, method_class, method_options

# The estimator keeps nothing beside its rows; a row of it has one weight per feature, so classes have no covariance of
# their own there.
STATELESS = [name for name in list_systems() if not issubclass(method_class(name), SessionTrainedSystem)]
SPECS = [f"{name}:factors=0" if "factors" in method_options(name) else name for name in STATELESS]
QUICK = {"ranpac:factors=0": "ranpac:factors=0,width=150,samples=30"}
# Transformed statistics are drawn from all base classes, and a regression weighs all classes against each other:
# without a class, the scores of the others change.
EXCEPT = {(name, "check_remove_class") for name in SPECS if "factors" in name}
# A trained part belongs to all base classes it was trained with.
EXCEPT |= {(name, "check_remove_class") for name in list_systems() if issubclass(method_class(name), TrainedSystem)}


@pytest.mark.parametrize(
    ("system", "check"),
    [(name, check) for name in SPECS for check in checks.list_checks() if (name, check.__name__) not in EXCEPT],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_system(system, check):
    check(QUICK.get(system) or spec_for_checks(system))


@pytest.mark.parametrize("system", ["fecam", "calibrated-fecam"])
def test_without_a_transformation_classes_are_scored_one_by_one(system):
    checks.check_remove_class(f"{system}:factors=0,tukey=1")
