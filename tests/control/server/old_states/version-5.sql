PRAGMA application_id = 1282885490;
PRAGMA user_version = 5;
BEGIN TRANSACTION;
CREATE TABLE archives (
  job TEXT PRIMARY KEY NOT NULL, summary TEXT NOT NULL, ranks TEXT NOT NULL, frontier TEXT NOT NULL,
  timeline TEXT NOT NULL, iterations TEXT NOT NULL
);
INSERT INTO "archives" VALUES('j-5fc63d303118','{"job":"j-5fc63d303118","run":"finished-run","name":"made-up","framework":"test","state":"finished","reason":"all ranks have ended","simulated":false,"gpu":"Simulated GPU","model":"llama 24x2048","parallel":{"pp":2,"dp":1,"tp":1,"chunks":1},"schedule":"1f1b","microbatches":2,"created_s":1795452185.532375,"finished_s":1795452208.371022,"ranks":2,"registered":0,"work":null,"iteration":null,"plan_version":0,"purpose":null,"from_iteration":null,"time_s":null,"stalled_iterations":0,"energy_j":null,"planned_time_s":null,"planned_energy_j":null,"baseline":{"time_s":0.3003,"time_error_s":0.00017320508071130397,"energy_j":112.848,"energy_error_j":0.027712812929876058,"iterations":3},"saved_pct":null,"saved_error_pct":null,"slowdown_pct":null,"slowdown_error_pct":null,"guard_limit_pct":5.0,"stragglers":[],"power_cap":null,"settings":{"slowdown_pct":0.0,"guard_pct":5.0},"has_failed":false,"retry_s":null}','[]','{"job":"j-5fc63d303118","vertices":[],"operating_point":null,"measured":null}','{"job":"j-5fc63d303118","plan_version":null,"plan":null}','[]');
CREATE TABLE cells (
  job TEXT NOT NULL, rank INTEGER NOT NULL, plan_version INTEGER NOT NULL, document TEXT NOT NULL,
  PRIMARY KEY (job, rank, plan_version)
);
CREATE TABLE decisions (
  job TEXT NOT NULL, id INTEGER NOT NULL, time_s REAL NOT NULL, document TEXT NOT NULL, PRIMARY KEY (job, id)
) WITHOUT ROWID;
INSERT INTO "decisions" VALUES('j-5fc63d303118',1,1.79545218562522292137e+09,'{"id":1,"time_s":1795452185.625223,"kind":"plan","plan_version":1,"reason":"measures units at 1410 MHz, 3 more behind it; from iteration 0"}');
INSERT INTO "decisions" VALUES('j-5fc63d303118',2,1.7954521869440038204e+09,'{"id":2,"time_s":1795452186.9440038,"kind":"plan","plan_version":2,"reason":"measures units at 1245 MHz, 2 more behind it; from iteration 5"}');
INSERT INTO "decisions" VALUES('j-5fc63d303118',3,1.79545218831981587409e+09,'{"id":3,"time_s":1795452188.3198159,"kind":"plan","plan_version":3,"reason":"measures units at 1080 MHz, 1 more behind it; from iteration 10"}');
INSERT INTO "decisions" VALUES('j-5fc63d303118',4,1.79545218912816214565e+09,'{"id":4,"time_s":1795452189.1281621,"kind":"plan","plan_version":4,"reason":"measures units at 915 MHz; from iteration 15"}');
INSERT INTO "decisions" VALUES('j-5fc63d303118',5,1.79545220156556677819e+09,'{"id":5,"time_s":1795452201.5655668,"kind":"profile","plan_version":4,"reason":"the plan''s energy is known to 0.045 % (one standard error); that is enough"}');
INSERT INTO "decisions" VALUES('j-5fc63d303118',6,1.79545220796617579464e+09,'{"id":6,"time_s":1795452207.9661758,"kind":"plan","plan_version":5,"reason":"planned from a profile of 4 clocks; from iteration 66"}');
INSERT INTO "decisions" VALUES('j-5fc63d303118',7,1.79545220837102198607e+09,'{"id":7,"time_s":1795452208.371022,"kind":"finish","plan_version":5,"reason":"all ranks have ended"}');
INSERT INTO "decisions" VALUES('j-c314d8fcf169',1,1.79545220854718232152e+09,'{"id":1,"time_s":1795452208.5471823,"kind":"profile","plan_version":null,"reason":"a profile of the same model, partition and GPU is known: nothing is profiled"}');
INSERT INTO "decisions" VALUES('j-c314d8fcf169',2,1.79545220854718232152e+09,'{"id":2,"time_s":1795452208.5471823,"kind":"plan","plan_version":1,"reason":"full clocks, to compare with; from iteration 0"}');
INSERT INTO "decisions" VALUES('j-c314d8fcf169',3,1.7954522095417764187e+09,'{"id":3,"time_s":1795452209.5417764,"kind":"baseline","plan_version":1,"reason":"full clocks take 0.3004 s an iteration"}');
INSERT INTO "decisions" VALUES('j-c314d8fcf169',4,1.79545221530566906928e+09,'{"id":4,"time_s":1795452215.305669,"kind":"plan","plan_version":2,"reason":"planned from a profile that was known; from iteration 31"}');
INSERT INTO "decisions" VALUES('j-c314d8fcf169',5,1.79545221578195381161e+09,'{"id":5,"time_s":1795452215.7819538,"kind":"straggler","plan_version":2,"reason":"rank 1 was reported to be 1.3 times slower"}');
INSERT INTO "decisions" VALUES('j-c314d8fcf169',6,1.79545335665340971944e+09,'{"id":6,"time_s":1795453356.6534097,"kind":"plan","plan_version":2,"reason":"the server was restarted; the present plan is the best for it"}');
INSERT INTO "decisions" VALUES('j-c314d8fcf169',7,1.7954627036906013489e+09,'{"id":7,"time_s":1795462703.6906013,"kind":"plan","plan_version":2,"reason":"the server was restarted; the present plan is the best for it"}');
CREATE TABLE documents (key TEXT PRIMARY KEY NOT NULL, document TEXT NOT NULL);
INSERT INTO "documents" VALUES('profile/{"pp":2,"tp":1,"chunks":1,"model":"llama 24x2048","partition":"uniform","gpu":"Simulated GPU","microbatch_size":1,"simulated":true}','{"format":"lowgear.measured_profile/1","simulated":true,"cells":[{"stage":0,"instruction":"forward","clock_mhz":1410,"units":24,"time_s":0.02,"time_error_s":1e-05,"energy_j":7.0,"energy_error_j":0.01},{"stage":0,"instruction":"forward","clock_mhz":1245,"units":24,"time_s":0.02223168051547619,"time_error_s":1e-05,"energy_j":6.3675377817781325,"energy_error_j":0.01},{"stage":0,"instruction":"forward","clock_mhz":1080,"units":24,"time_s":0.025087422810833288,"time_error_s":1e-05,"energy_j":5.895292379714387,"energy_error_j":0.01},{"stage":0,"instruction":"forward","clock_mhz":915,"units":24,"time_s":0.028884064854682617,"time_error_s":1e-05,"energy_j":5.624385240178925,"energy_error_j":0.01},{"stage":0,"instruction":"backward","clock_mhz":1410,"units":24,"time_s":0.04,"time_error_s":1e-05,"energy_j":14.0,"energy_error_j":0.01},{"stage":0,"instruction":"backward","clock_mhz":1245,"units":24,"time_s":0.04446336103095238,"time_error_s":1e-05,"energy_j":12.735075563556265,"energy_error_j":0.01},{"stage":0,"instruction":"backward","clock_mhz":1080,"units":24,"time_s":0.050174845621666575,"time_error_s":1e-05,"energy_j":11.790584759428773,"energy_error_j":0.01},{"stage":0,"instruction":"backward","clock_mhz":915,"units":24,"time_s":0.057768129709365235,"time_error_s":1e-05,"energy_j":11.24877048035785,"energy_error_j":0.01},{"stage":1,"instruction":"forward","clock_mhz":1410,"units":24,"time_s":0.02,"time_error_s":1e-05,"energy_j":7.0,"energy_error_j":0.01},{"stage":1,"instruction":"forward","clock_mhz":1245,"units":24,"time_s":0.02223168051547619,"time_error_s":1e-05,"energy_j":6.3675377817781325,"energy_error_j":0.01},{"stage":1,"instruction":"forward","clock_mhz":1080,"units":24,"time_s":0.025087422810833288,"time_error_s":1e-05,"energy_j":5.895292379714387,"energy_error_j":0.01},{"stage":1,"instruction":"forward","clock_mhz":915,"units":24,"time_s":0.028884064854682617,"time_error_s":1e-05,"energy_j":5.624385240178925,"energy_error_j":0.01},{"stage":1,"instruction":"backward","clock_mhz":1410,"units":24,"time_s":0.04,"time_error_s":1e-05,"energy_j":14.0,"energy_error_j":0.01},{"stage":1,"instruction":"backward","clock_mhz":1245,"units":24,"time_s":0.04446336103095238,"time_error_s":1e-05,"energy_j":12.735075563556265,"energy_error_j":0.01},{"stage":1,"instruction":"backward","clock_mhz":1080,"units":24,"time_s":0.050174845621666575,"time_error_s":1e-05,"energy_j":11.790584759428773,"energy_error_j":0.01},{"stage":1,"instruction":"backward","clock_mhz":915,"units":24,"time_s":0.057768129709365235,"time_error_s":1e-05,"energy_j":11.24877048035785,"energy_error_j":0.01}],"blocking":[{"stage":0,"power_w":80.0,"error_w":0.15},{"stage":1,"power_w":80.0,"error_w":0.15}]}');
INSERT INTO "documents" VALUES('budget/cluster','{"watts":60000}');
CREATE TABLE "jobs" (
  id TEXT PRIMARY KEY NOT NULL, run TEXT NOT NULL, spec TEXT NOT NULL, state TEXT NOT NULL,
  created_s REAL NOT NULL, finished_s REAL
) WITHOUT ROWID;
INSERT INTO "jobs" VALUES('j-5fc63d303118','finished-run','{"run":"finished-run","name":"made-up","framework":"test","model":"llama 24x2048","partition":"uniform","gpu":"Simulated GPU","parallel":{"pp":2,"dp":1,"tp":1,"chunks":1},"schedule":"1f1b","microbatches":2,"microbatch_size":1,"slowdown_pct":0.0,"guard_pct":5.0,"switch_latency_ms":0.0,"profile":{"clocks":4,"iterations":3,"settle_iterations":1,"min_mhz":900,"max_mhz":null}}','{"state":"finished","reason":"all ranks have ended","plan_failed":false,"decisions":7,"slowdown_pct":0.0,"guard_pct":5.0,"reported_slow":[],"detected_slow":[],"set_by":{"power_limit":0,"settings":0,"stragglers":[]},"power_limit":null,"baseline_version":1,"baseline":{"time_s":0.3003,"time_error_s":0.00017320508071130397,"time_spread_s":0.0002999999999210466,"energy_j":112.848,"energy_error_j":0.027712812929876058,"iterations":3},"training_version":5,"first_training_version":5,"is_capped":false,"waiting_clocks_mhz":[],"sweep_first_version":1,"sweep_version":4}',1.7954521855323750972e+09,1.79545220837102198607e+09);
INSERT INTO "jobs" VALUES('j-c314d8fcf169','open-run','{"run":"open-run","name":"made-up","framework":"test","model":"llama 24x2048","partition":"uniform","gpu":"Simulated GPU","parallel":{"pp":2,"dp":1,"tp":1,"chunks":1},"schedule":"1f1b","microbatches":2,"microbatch_size":1,"slowdown_pct":0.0,"guard_pct":5.0,"switch_latency_ms":0.0,"profile":{"clocks":4,"iterations":3,"settle_iterations":1,"min_mhz":900,"max_mhz":null,"allowance_pct":2.0,"allowance_iterations":500}}','{"state":"running","reason":"follows a plan","plan_failed":false,"decisions":7,"slowdown_pct":0.0,"guard_pct":5.0,"reported_slow":[{"rank":1,"factor":1.3,"cause":"reported"}],"detected_slow":[],"set_by":{"power_limit":0,"settings":0,"stragglers":[{"rank":1,"decision":5}]},"power_limit":null,"reserved_version":0,"baseline_version":1,"baseline":{"time_s":0.30036,"time_error_s":0.00011224972157367659,"time_spread_s":0.0002509980078941655,"energy_j":112.85759999999998,"energy_error_j":0.017959955480431587,"iterations":5},"training_version":2,"first_training_version":2,"is_capped":false,"wanted_clocks_mhz":[],"sweep_first_version":1,"sweep_version":0,"sweep_end_iteration":0,"trials_cost_s":0.0,"profiled_s":null,"retry_s":null}',1.79545220844799757005e+09,NULL);
CREATE TABLE plans (
  job TEXT NOT NULL, version INTEGER NOT NULL, document TEXT NOT NULL, PRIMARY KEY (job, version)
);
INSERT INTO "plans" VALUES('j-c314d8fcf169',1,'{"version":1,"purpose":"baseline","from_iteration":0,"iterations":5,"settle_iterations":1,"reason":"full clocks, to compare with","time_s":null,"energy_j":null,"format":"lowgear.plan_version/1","expected_compute_s":[],"plan_of_replica":[0],"plans":[{
  "format": "lowgear.plan/1",
  "policy": "baseline",
  "schedule": "1f1b",
  "gpu": "Simulated GPU",
  "microbatches": 2,
  "deadline_s": 0,
  "time_s": 0,
  "energy_j": 0,
  "switches": 0,
  "stages": [
    {"stage": 0, "ops": [
      {"op":"forward","microbatch":0,"mhz":1410,"start_s":0,"duration_s":0},
      {"op":"forward","microbatch":1,"mhz":1410,"start_s":0,"duration_s":0},
      {"op":"backward","microbatch":0,"mhz":1410,"start_s":0,"duration_s":0},
      {"op":"backward","microbatch":1,"mhz":1410,"start_s":0,"duration_s":0}
    ]},
    {"stage": 1, "ops": [
      {"op":"forward","microbatch":0,"mhz":1410,"start_s":0,"duration_s":0},
      {"op":"backward","microbatch":0,"mhz":1410,"start_s":0,"duration_s":0},
      {"op":"forward","microbatch":1,"mhz":1410,"start_s":0,"duration_s":0},
      {"op":"backward","microbatch":1,"mhz":1410,"start_s":0,"duration_s":0}
    ]}
  ]
}
]}');
INSERT INTO "plans" VALUES('j-c314d8fcf169',2,'{"version":2,"purpose":"train","from_iteration":31,"iterations":0,"settle_iterations":0,"reason":"planned from a profile that was known","time_s":0.18000000000000002,"energy_j":87.34098015541294,"format":"lowgear.plan_version/1","expected_compute_s":[[0.14665219456404785,0.12]],"plan_of_replica":[0],"plans":[{
  "format": "lowgear.plan/1",
  "policy": "lowgear",
  "schedule": "1f1b",
  "gpu": "Simulated GPU",
  "microbatches": 2,
  "deadline_s": 0.18000000000000002,
  "time_s": 0.18000000000000002,
  "energy_j": 87.34098015541294,
  "lower_bound_j": 87.34098015541386,
  "gap_pct": -1.0575855169526328e-12,
  "switches": 2,
  "stages": [
    {"stage": 0, "ops": [
      {"op":"forward","microbatch":0,"mhz":1410,"start_s":0,"duration_s":0.02},
      {"op":"forward","microbatch":1,"mhz":915,"start_s":0.02,"duration_s":0.028884064854682617},
      {"op":"backward","microbatch":0,"mhz":915,"start_s":0.08,"duration_s":0.057768129709365235},
      {"op":"backward","microbatch":1,"mhz":1410,"start_s":0.14,"duration_s":0.04}
    ]},
    {"stage": 1, "ops": [
      {"op":"forward","microbatch":0,"mhz":1410,"start_s":0.02,"duration_s":0.02},
      {"op":"backward","microbatch":0,"mhz":1410,"start_s":0.04,"duration_s":0.04},
      {"op":"forward","microbatch":1,"mhz":1410,"start_s":0.08,"duration_s":0.02},
      {"op":"backward","microbatch":1,"mhz":1410,"start_s":0.1,"duration_s":0.04}
    ]}
  ]
}
]}');
CREATE TABLE ranks (
  job TEXT NOT NULL, rank INTEGER NOT NULL, document TEXT NOT NULL, PRIMARY KEY (job, rank)
) WITHOUT ROWID;
INSERT INTO "ranks" VALUES('j-c314d8fcf169',0,'{"rank":0,"pp_rank":0,"dp_rank":0,"tp_rank":0,"instance":"instance-0","host":"node-1","gpu_uuid":"GPU-0","gpu":"Simulated GPU","simulated":true,"clocks_mhz":[1410,1395,1380,1365,1350,1335,1320,1305,1290,1275,1260,1245,1230,1215,1200,1185,1170,1155,1140,1125,1110,1095,1080,1065,1050,1035,1020,1005,990,975,960,945,930,915],"power_limit_w":400.0,"follows_plans":true,"key":"4291c4abe4d5445380bf40def3417f2b","finished":false}');
INSERT INTO "ranks" VALUES('j-c314d8fcf169',1,'{"rank":1,"pp_rank":1,"dp_rank":0,"tp_rank":0,"instance":"instance-1","host":"node-1","gpu_uuid":"GPU-1","gpu":"Simulated GPU","simulated":true,"clocks_mhz":[1410,1395,1380,1365,1350,1335,1320,1305,1290,1275,1260,1245,1230,1215,1200,1185,1170,1155,1140,1125,1110,1095,1080,1065,1050,1035,1020,1005,990,975,960,945,930,915],"power_limit_w":400.0,"follows_plans":true,"key":"026307f2f08fc65b2369412754a95911","finished":false}');
CREATE TABLE reports (
  job TEXT NOT NULL, first_iteration INTEGER NOT NULL, rank INTEGER NOT NULL, last_iteration INTEGER NOT NULL,
  document TEXT NOT NULL, PRIMARY KEY (job, first_iteration, rank)
) WITHOUT ROWID;
INSERT INTO "reports" VALUES('j-c314d8fcf169',0,0,0,'{"rank":0,"reports":[{"iteration":0,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',0,1,0,'{"rank":1,"reports":[{"iteration":0,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',1,0,1,'{"rank":0,"reports":[{"iteration":1,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',1,1,1,'{"rank":1,"reports":[{"iteration":1,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',2,0,2,'{"rank":0,"reports":[{"iteration":2,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',2,1,2,'{"rank":1,"reports":[{"iteration":2,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',3,0,3,'{"rank":0,"reports":[{"iteration":3,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',3,1,3,'{"rank":1,"reports":[{"iteration":3,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',4,0,4,'{"rank":0,"reports":[{"iteration":4,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',4,1,4,'{"rank":1,"reports":[{"iteration":4,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',5,0,5,'{"rank":0,"reports":[{"iteration":5,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',5,1,5,'{"rank":1,"reports":[{"iteration":5,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',6,0,6,'{"rank":0,"reports":[{"iteration":6,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',6,1,6,'{"rank":1,"reports":[{"iteration":6,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',7,0,7,'{"rank":0,"reports":[{"iteration":7,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',7,1,7,'{"rank":1,"reports":[{"iteration":7,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',8,0,8,'{"rank":0,"reports":[{"iteration":8,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',8,1,8,'{"rank":1,"reports":[{"iteration":8,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',9,0,9,'{"rank":0,"reports":[{"iteration":9,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',9,1,9,'{"rank":1,"reports":[{"iteration":9,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',10,0,10,'{"rank":0,"reports":[{"iteration":10,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',10,1,10,'{"rank":1,"reports":[{"iteration":10,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',11,0,11,'{"rank":0,"reports":[{"iteration":11,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',11,1,11,'{"rank":1,"reports":[{"iteration":11,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',12,0,12,'{"rank":0,"reports":[{"iteration":12,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',12,1,12,'{"rank":1,"reports":[{"iteration":12,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',13,0,13,'{"rank":0,"reports":[{"iteration":13,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',13,1,13,'{"rank":1,"reports":[{"iteration":13,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',14,0,14,'{"rank":0,"reports":[{"iteration":14,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',14,1,14,'{"rank":1,"reports":[{"iteration":14,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',15,0,15,'{"rank":0,"reports":[{"iteration":15,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',15,1,15,'{"rank":1,"reports":[{"iteration":15,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',16,0,16,'{"rank":0,"reports":[{"iteration":16,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',16,1,16,'{"rank":1,"reports":[{"iteration":16,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',17,0,17,'{"rank":0,"reports":[{"iteration":17,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',17,1,17,'{"rank":1,"reports":[{"iteration":17,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',18,0,18,'{"rank":0,"reports":[{"iteration":18,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',18,1,18,'{"rank":1,"reports":[{"iteration":18,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',19,0,19,'{"rank":0,"reports":[{"iteration":19,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',19,1,19,'{"rank":1,"reports":[{"iteration":19,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',20,0,20,'{"rank":0,"reports":[{"iteration":20,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',20,1,20,'{"rank":1,"reports":[{"iteration":20,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',21,0,21,'{"rank":0,"reports":[{"iteration":21,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',21,1,21,'{"rank":1,"reports":[{"iteration":21,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',22,0,22,'{"rank":0,"reports":[{"iteration":22,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',22,1,22,'{"rank":1,"reports":[{"iteration":22,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',23,0,23,'{"rank":0,"reports":[{"iteration":23,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',23,1,23,'{"rank":1,"reports":[{"iteration":23,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',24,0,24,'{"rank":0,"reports":[{"iteration":24,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',24,1,24,'{"rank":1,"reports":[{"iteration":24,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',25,0,25,'{"rank":0,"reports":[{"iteration":25,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',25,1,25,'{"rank":1,"reports":[{"iteration":25,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',26,0,26,'{"rank":0,"reports":[{"iteration":26,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',26,1,26,'{"rank":1,"reports":[{"iteration":26,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',27,0,27,'{"rank":0,"reports":[{"iteration":27,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',27,1,27,'{"rank":1,"reports":[{"iteration":27,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',28,0,28,'{"rank":0,"reports":[{"iteration":28,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',28,1,28,'{"rank":1,"reports":[{"iteration":28,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',29,0,29,'{"rank":0,"reports":[{"iteration":29,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',29,1,29,'{"rank":1,"reports":[{"iteration":29,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',30,0,30,'{"rank":0,"reports":[{"iteration":30,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',30,1,30,'{"rank":1,"reports":[{"iteration":30,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',31,0,31,'{"rank":0,"reports":[{"iteration":31,"plan_version":2,"time_s":0.18018,"compute_s":0.14665219456404785,"energy_j":40.55538015541295,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":225.0825849451268,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',31,1,31,'{"rank":1,"reports":[{"iteration":31,"plan_version":2,"time_s":0.18018,"compute_s":0.12,"energy_j":46.8144,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":259.8201798201798,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',32,0,32,'{"rank":0,"reports":[{"iteration":32,"plan_version":2,"time_s":0.18036000000000002,"compute_s":0.14665219456404785,"energy_j":40.56978015541294,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":224.93779194617952,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',32,1,32,'{"rank":1,"reports":[{"iteration":32,"plan_version":2,"time_s":0.18036000000000002,"compute_s":0.12,"energy_j":46.8288,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":259.6407185628742,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',33,0,33,'{"rank":0,"reports":[{"iteration":33,"plan_version":2,"time_s":0.18000000000000002,"compute_s":0.14665219456404785,"energy_j":40.540980155412946,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":225.2276675300719,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',33,1,33,'{"rank":1,"reports":[{"iteration":33,"plan_version":2,"time_s":0.18000000000000002,"compute_s":0.12,"energy_j":46.800000000000004,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":260.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',34,0,34,'{"rank":0,"reports":[{"iteration":34,"plan_version":2,"time_s":0.3,"compute_s":0.2,"energy_j":60.0,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":200.0,"sm_clock_mhz":1300.0,"sm_clock_min_mhz":1005.0,"sm_clock_max_mhz":1410.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-c314d8fcf169',34,1,34,'{"rank":1,"reports":[{"iteration":34,"plan_version":2,"time_s":0.3,"compute_s":0.2,"energy_j":60.0,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":200.0,"sm_clock_mhz":1300.0,"sm_clock_min_mhz":1005.0,"sm_clock_max_mhz":1410.0,"temperature_c":60.0}}');
CREATE TABLE usage (
  id INTEGER PRIMARY KEY, job TEXT NOT NULL, hour_s INTEGER NOT NULL, baseline_j REAL NOT NULL,
  baseline_error_j REAL NOT NULL, baseline_time_s REAL NOT NULL, last_iteration INTEGER NOT NULL,
  iterations INTEGER NOT NULL, measured INTEGER NOT NULL, time_s REAL NOT NULL, energy_j REAL NOT NULL,
  energy_variance REAL NOT NULL, UNIQUE (job, hour_s, baseline_j)
);
INSERT INTO "usage" VALUES(1,'j-c314d8fcf169',1795460400,1.12857599999999976599e+02,1.79599554804315865441e-02,0.30036,34,1,1,0.3,120.0,1.0);
CREATE TABLE used_jobs (
  job TEXT PRIMARY KEY NOT NULL, run TEXT NOT NULL, name TEXT NOT NULL, user TEXT NOT NULL, gpu TEXT NOT NULL,
  simulated INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "used_jobs" VALUES('j-c314d8fcf169','open-run','made-up','','Simulated GPU',1);
CREATE INDEX jobs_by_end ON jobs (finished_s, created_s);
CREATE INDEX usage_by_hour ON usage (hour_s);
COMMIT;
