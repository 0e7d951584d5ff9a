from tcplug_planner_speed.contract import *  # noqa: F403
