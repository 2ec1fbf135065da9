# The published policies; included by the planner module.
set(LOWGEAR_POLICY_SOURCES
    exponential/exponential_fit.cpp
    exponential/perseus_curve.cpp
    policies/clock_choice.cpp
    policies/envpipe/envpipe.cpp
    policies/envpipe/envpipe_config.cpp
    policies/envpipe/envpipe_offline.cpp
    policies/envpipe/envpipe_reconfiguration.cpp
    policies/envpipe/envpipe_sweep.cpp
    policies/perseus.cpp
    policies/policy.cpp
    policies/zeus.cpp)
find_package(Eigen3 3.4 REQUIRED NO_MODULE GLOBAL)
set(LOWGEAR_POLICY_LIBRARIES Eigen3::Eigen)
