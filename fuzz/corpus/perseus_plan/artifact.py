[
[1095, 1080],
[1410, 1395],
]
# Iteration 0: cost change 0.23 
# Iteration 0: total cost 34.5 
# Iteration 0: refined cost 57.4 
