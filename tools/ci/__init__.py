"""The runs of CI: ``python -m tools.ci gate`` and ``python -m tools.ci all``, behind ``.ci/run`` and ``.ci/all``.

Only the standard library is used: the gate makes the environment, and reports as well where that cannot be made.
"""
