[
[('forward', 1410), ("backward", 1200)],
[('input_gradient', 1), ('weight_gradient', 100000)],
]
# Iteration 3 cost change: 0.1
