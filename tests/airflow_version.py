"""The version of the installed Airflow. What a test needs of it goes by this, and not by whether a module is found: a
module that a new Airflow has moved must fail the test, and not skip it.
"""

from airflow import __version__
from packaging.version import Version

AIRFLOW_V_3_3 = Version(__version__) >= Version("3.3")
