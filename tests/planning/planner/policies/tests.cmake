# The tests of the published policies; included by the planner's tests.
set(LOWGEAR_POLICY_TESTS
    exponential/exponential_fit_test.cpp
    exponential/perseus_curve_test.cpp
    policies/clock_choice_test.cpp
    policies/envpipe/envpipe_config_test.cpp
    policies/envpipe/envpipe_offline_test.cpp
    policies/envpipe/envpipe_reconfiguration_test.cpp
    policies/envpipe/envpipe_sweep_test.cpp
    policies/envpipe/envpipe_test.cpp
    policies/perseus_test.cpp
    policies/policy_test.cpp
    policies/published_tables_test.cpp
    policies/zeus_test.cpp)
