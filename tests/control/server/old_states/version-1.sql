PRAGMA application_id = 1282885490;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE cells (
  job TEXT NOT NULL, rank INTEGER NOT NULL, plan_version INTEGER NOT NULL, document TEXT NOT NULL,
  PRIMARY KEY (job, rank, plan_version)
);
INSERT INTO "cells" VALUES('j-f52ea3bb0e3f',0,1,'{"rank":0,"plan_version":1,"cells":[{"stage":0,"instruction":"forward","clock_mhz":1410,"units":24,"time_s":0.02,"time_error_s":1e-05,"energy_j":7.0,"energy_error_j":0.01},{"stage":0,"instruction":"backward","clock_mhz":1410,"units":24,"time_s":0.04,"time_error_s":1e-05,"energy_j":14.0,"energy_error_j":0.01}],"blocking":[{"stage":0,"power_w":80.0,"error_w":0.3}]}');
INSERT INTO "cells" VALUES('j-f52ea3bb0e3f',1,1,'{"rank":1,"plan_version":1,"cells":[{"stage":1,"instruction":"forward","clock_mhz":1410,"units":24,"time_s":0.02,"time_error_s":1e-05,"energy_j":7.0,"energy_error_j":0.01},{"stage":1,"instruction":"backward","clock_mhz":1410,"units":24,"time_s":0.04,"time_error_s":1e-05,"energy_j":14.0,"energy_error_j":0.01}],"blocking":[{"stage":1,"power_w":80.0,"error_w":0.3}]}');
INSERT INTO "cells" VALUES('j-f52ea3bb0e3f',0,2,'{"rank":0,"plan_version":2,"cells":[{"stage":0,"instruction":"forward","clock_mhz":1245,"units":24,"time_s":0.02223168051547619,"time_error_s":1e-05,"energy_j":6.3675377817781325,"energy_error_j":0.01},{"stage":0,"instruction":"backward","clock_mhz":1245,"units":24,"time_s":0.04446336103095238,"time_error_s":1e-05,"energy_j":12.735075563556265,"energy_error_j":0.01}],"blocking":[{"stage":0,"power_w":80.0,"error_w":0.3}]}');
INSERT INTO "cells" VALUES('j-f52ea3bb0e3f',1,2,'{"rank":1,"plan_version":2,"cells":[{"stage":1,"instruction":"forward","clock_mhz":1245,"units":24,"time_s":0.02223168051547619,"time_error_s":1e-05,"energy_j":6.3675377817781325,"energy_error_j":0.01},{"stage":1,"instruction":"backward","clock_mhz":1245,"units":24,"time_s":0.04446336103095238,"time_error_s":1e-05,"energy_j":12.735075563556265,"energy_error_j":0.01}],"blocking":[{"stage":1,"power_w":80.0,"error_w":0.3}]}');
INSERT INTO "cells" VALUES('j-f52ea3bb0e3f',0,3,'{"rank":0,"plan_version":3,"cells":[{"stage":0,"instruction":"forward","clock_mhz":1080,"units":24,"time_s":0.025087422810833288,"time_error_s":1e-05,"energy_j":5.895292379714387,"energy_error_j":0.01},{"stage":0,"instruction":"backward","clock_mhz":1080,"units":24,"time_s":0.050174845621666575,"time_error_s":1e-05,"energy_j":11.790584759428773,"energy_error_j":0.01}],"blocking":[{"stage":0,"power_w":80.0,"error_w":0.3}]}');
INSERT INTO "cells" VALUES('j-f52ea3bb0e3f',1,3,'{"rank":1,"plan_version":3,"cells":[{"stage":1,"instruction":"forward","clock_mhz":1080,"units":24,"time_s":0.025087422810833288,"time_error_s":1e-05,"energy_j":5.895292379714387,"energy_error_j":0.01},{"stage":1,"instruction":"backward","clock_mhz":1080,"units":24,"time_s":0.050174845621666575,"time_error_s":1e-05,"energy_j":11.790584759428773,"energy_error_j":0.01}],"blocking":[{"stage":1,"power_w":80.0,"error_w":0.3}]}');
INSERT INTO "cells" VALUES('j-f52ea3bb0e3f',0,4,'{"rank":0,"plan_version":4,"cells":[{"stage":0,"instruction":"forward","clock_mhz":915,"units":24,"time_s":0.028884064854682617,"time_error_s":1e-05,"energy_j":5.624385240178925,"energy_error_j":0.01},{"stage":0,"instruction":"backward","clock_mhz":915,"units":24,"time_s":0.057768129709365235,"time_error_s":1e-05,"energy_j":11.24877048035785,"energy_error_j":0.01}],"blocking":[{"stage":0,"power_w":80.0,"error_w":0.3}]}');
INSERT INTO "cells" VALUES('j-f52ea3bb0e3f',1,4,'{"rank":1,"plan_version":4,"cells":[{"stage":1,"instruction":"forward","clock_mhz":915,"units":24,"time_s":0.028884064854682617,"time_error_s":1e-05,"energy_j":5.624385240178925,"energy_error_j":0.01},{"stage":1,"instruction":"backward","clock_mhz":915,"units":24,"time_s":0.057768129709365235,"time_error_s":1e-05,"energy_j":11.24877048035785,"energy_error_j":0.01}],"blocking":[{"stage":1,"power_w":80.0,"error_w":0.3}]}');
CREATE TABLE decisions (
  job TEXT NOT NULL, id INTEGER NOT NULL, time_s REAL NOT NULL, document TEXT NOT NULL, PRIMARY KEY (job, id)
) WITHOUT ROWID;
INSERT INTO "decisions" VALUES('j-2afc0bf4689f',1,1.79545022329058694835e+09,'{"id":1,"time_s":1795450223.290587,"kind":"profile","plan_version":null,"reason":"a profile of the same model, partition and GPU is known: nothing is profiled"}');
INSERT INTO "decisions" VALUES('j-2afc0bf4689f',2,1.79545022329058694835e+09,'{"id":2,"time_s":1795450223.290587,"kind":"plan","plan_version":1,"reason":"full clocks, to compare with; from iteration 0"}');
INSERT INTO "decisions" VALUES('j-2afc0bf4689f',3,1.79545022358798384669e+09,'{"id":3,"time_s":1795450223.5879838,"kind":"baseline","plan_version":1,"reason":"full clocks take 0.3004 s an iteration"}');
INSERT INTO "decisions" VALUES('j-2afc0bf4689f',4,1.79545022614671301837e+09,'{"id":4,"time_s":1795450226.146713,"kind":"plan","plan_version":2,"reason":"planned from a profile that was known; from iteration 22"}');
INSERT INTO "decisions" VALUES('j-2afc0bf4689f',5,1.79545022619157385824e+09,'{"id":5,"time_s":1795450226.1915739,"kind":"straggler","plan_version":2,"reason":"rank 1 was reported to be 1.3 times slower"}');
INSERT INTO "decisions" VALUES('j-f52ea3bb0e3f',1,1.79545021530856609343e+09,'{"id":1,"time_s":1795450215.308566,"kind":"plan","plan_version":1,"reason":"measures units at 1410 MHz, 3 more behind it; from iteration 0"}');
INSERT INTO "decisions" VALUES('j-f52ea3bb0e3f',2,1.79545021553503489492e+09,'{"id":2,"time_s":1795450215.535035,"kind":"plan","plan_version":2,"reason":"measures units at 1245 MHz, 2 more behind it; from iteration 5"}');
INSERT INTO "decisions" VALUES('j-f52ea3bb0e3f',3,1.79545021601451325419e+09,'{"id":3,"time_s":1795450216.0145133,"kind":"plan","plan_version":3,"reason":"measures units at 1080 MHz, 1 more behind it; from iteration 10"}');
INSERT INTO "decisions" VALUES('j-f52ea3bb0e3f',4,1.79545021670800375931e+09,'{"id":4,"time_s":1795450216.7080038,"kind":"plan","plan_version":4,"reason":"measures units at 915 MHz; from iteration 15"}');
INSERT INTO "decisions" VALUES('j-f52ea3bb0e3f',5,1.79545021959765028953e+09,'{"id":5,"time_s":1795450219.5976503,"kind":"profile","plan_version":4,"reason":"the plan''s energy is known to 0.045 % (one standard error); that is enough"}');
INSERT INTO "decisions" VALUES('j-f52ea3bb0e3f',6,1.79545022313396883013e+09,'{"id":6,"time_s":1795450223.1339688,"kind":"plan","plan_version":5,"reason":"planned from a profile of 4 clocks; from iteration 46"}');
INSERT INTO "decisions" VALUES('j-f52ea3bb0e3f',7,1.79545022328574228288e+09,'{"id":7,"time_s":1795450223.2857423,"kind":"finish","plan_version":5,"reason":"all ranks have ended"}');
CREATE TABLE documents (key TEXT PRIMARY KEY NOT NULL, document TEXT NOT NULL);
INSERT INTO "documents" VALUES('profile/{"pp":2,"tp":1,"chunks":1,"model":"llama 24x2048","partition":"uniform","gpu":"Simulated GPU","microbatch_size":1}','{"format":"lowgear.measured_profile/1","simulated":true,"cells":[{"stage":0,"instruction":"forward","clock_mhz":1410,"units":24,"time_s":0.02,"time_error_s":1e-05,"energy_j":7.0,"energy_error_j":0.01},{"stage":0,"instruction":"forward","clock_mhz":1245,"units":24,"time_s":0.02223168051547619,"time_error_s":1e-05,"energy_j":6.3675377817781325,"energy_error_j":0.01},{"stage":0,"instruction":"forward","clock_mhz":1080,"units":24,"time_s":0.025087422810833288,"time_error_s":1e-05,"energy_j":5.895292379714387,"energy_error_j":0.01},{"stage":0,"instruction":"forward","clock_mhz":915,"units":24,"time_s":0.028884064854682617,"time_error_s":1e-05,"energy_j":5.624385240178925,"energy_error_j":0.01},{"stage":0,"instruction":"backward","clock_mhz":1410,"units":24,"time_s":0.04,"time_error_s":1e-05,"energy_j":14.0,"energy_error_j":0.01},{"stage":0,"instruction":"backward","clock_mhz":1245,"units":24,"time_s":0.04446336103095238,"time_error_s":1e-05,"energy_j":12.735075563556265,"energy_error_j":0.01},{"stage":0,"instruction":"backward","clock_mhz":1080,"units":24,"time_s":0.050174845621666575,"time_error_s":1e-05,"energy_j":11.790584759428773,"energy_error_j":0.01},{"stage":0,"instruction":"backward","clock_mhz":915,"units":24,"time_s":0.057768129709365235,"time_error_s":1e-05,"energy_j":11.24877048035785,"energy_error_j":0.01},{"stage":1,"instruction":"forward","clock_mhz":1410,"units":24,"time_s":0.02,"time_error_s":1e-05,"energy_j":7.0,"energy_error_j":0.01},{"stage":1,"instruction":"forward","clock_mhz":1245,"units":24,"time_s":0.02223168051547619,"time_error_s":1e-05,"energy_j":6.3675377817781325,"energy_error_j":0.01},{"stage":1,"instruction":"forward","clock_mhz":1080,"units":24,"time_s":0.025087422810833288,"time_error_s":1e-05,"energy_j":5.895292379714387,"energy_error_j":0.01},{"stage":1,"instruction":"forward","clock_mhz":915,"units":24,"time_s":0.028884064854682617,"time_error_s":1e-05,"energy_j":5.624385240178925,"energy_error_j":0.01},{"stage":1,"instruction":"backward","clock_mhz":1410,"units":24,"time_s":0.04,"time_error_s":1e-05,"energy_j":14.0,"energy_error_j":0.01},{"stage":1,"instruction":"backward","clock_mhz":1245,"units":24,"time_s":0.04446336103095238,"time_error_s":1e-05,"energy_j":12.735075563556265,"energy_error_j":0.01},{"stage":1,"instruction":"backward","clock_mhz":1080,"units":24,"time_s":0.050174845621666575,"time_error_s":1e-05,"energy_j":11.790584759428773,"energy_error_j":0.01},{"stage":1,"instruction":"backward","clock_mhz":915,"units":24,"time_s":0.057768129709365235,"time_error_s":1e-05,"energy_j":11.24877048035785,"energy_error_j":0.01}],"blocking":[{"stage":0,"power_w":80.0,"error_w":0.15},{"stage":1,"power_w":80.0,"error_w":0.15}]}');
CREATE TABLE jobs (
  id TEXT PRIMARY KEY NOT NULL, run TEXT NOT NULL UNIQUE, spec TEXT NOT NULL, state TEXT NOT NULL,
  created_s REAL NOT NULL, finished_s REAL
) WITHOUT ROWID;
INSERT INTO "jobs" VALUES('j-2afc0bf4689f','open-run','{"run":"open-run","name":"made-up","framework":"test","model":"llama 24x2048","partition":"uniform","gpu":"Simulated GPU","parallel":{"pp":2,"dp":1,"tp":1,"chunks":1},"schedule":"1f1b","microbatches":2,"microbatch_size":1,"slowdown_pct":0.0,"guard_pct":5.0,"switch_latency_ms":0.0,"profile":{"clocks":4,"iterations":3,"settle_iterations":1,"min_mhz":900,"max_mhz":null}}','{"state":"running","reason":"follows a plan","decisions":5,"slowdown_pct":0.0,"guard_pct":5.0,"reported_slow":[{"rank":1,"factor":1.3,"cause":"reported"}],"detected_slow":[],"power_limit":null,"baseline_version":1,"baseline":{"time_s":0.30036,"time_error_s":0.00011224972157367659,"time_spread_s":0.0002509980078941655,"energy_j":112.85759999999998,"energy_error_j":0.017959955480431587,"iterations":5},"training_version":2,"first_training_version":2,"waiting_clocks_mhz":[],"sweep_version":0}',1.7954502232873294353e+09,NULL);
INSERT INTO "jobs" VALUES('j-f52ea3bb0e3f','finished-run','{"run":"finished-run","name":"made-up","framework":"test","model":"llama 24x2048","partition":"uniform","gpu":"Simulated GPU","parallel":{"pp":2,"dp":1,"tp":1,"chunks":1},"schedule":"1f1b","microbatches":2,"microbatch_size":1,"slowdown_pct":0.0,"guard_pct":5.0,"switch_latency_ms":0.0,"profile":{"clocks":4,"iterations":3,"settle_iterations":1,"min_mhz":900,"max_mhz":null}}','{"state":"finished","reason":"all ranks have ended","decisions":7,"slowdown_pct":0.0,"guard_pct":5.0,"reported_slow":[],"detected_slow":[],"power_limit":null,"baseline_version":1,"baseline":{"time_s":0.3003,"time_error_s":0.00017320508071130397,"time_spread_s":0.0002999999999210466,"energy_j":112.848,"energy_error_j":0.027712812929876058,"iterations":3},"training_version":5,"first_training_version":5,"waiting_clocks_mhz":[],"sweep_version":4}',1.7954502152738780976e+09,1.79545022328574228288e+09);
CREATE TABLE plans (
  job TEXT NOT NULL, version INTEGER NOT NULL, document TEXT NOT NULL, PRIMARY KEY (job, version)
);
INSERT INTO "plans" VALUES('j-f52ea3bb0e3f',1,'{"version":1,"purpose":"profile","from_iteration":0,"iterations":3,"settle_iterations":1,"reason":"measures units at 1410 MHz, 3 more behind it","time_s":null,"energy_j":null,"format":"lowgear.plan_version/1","expected_compute_s":[],"plan_of_replica":[0],"plans":[{
  "format": "lowgear.plan/1",
  "policy": "profile",
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
INSERT INTO "plans" VALUES('j-f52ea3bb0e3f',2,'{"version":2,"purpose":"profile","from_iteration":5,"iterations":3,"settle_iterations":1,"reason":"measures units at 1245 MHz, 2 more behind it","time_s":null,"energy_j":null,"format":"lowgear.plan_version/1","expected_compute_s":[],"plan_of_replica":[0],"plans":[{
  "format": "lowgear.plan/1",
  "policy": "profile",
  "schedule": "1f1b",
  "gpu": "Simulated GPU",
  "microbatches": 2,
  "deadline_s": 0,
  "time_s": 0,
  "energy_j": 0,
  "switches": 0,
  "stages": [
    {"stage": 0, "ops": [
      {"op":"forward","microbatch":0,"mhz":1245,"start_s":0,"duration_s":0},
      {"op":"forward","microbatch":1,"mhz":1245,"start_s":0,"duration_s":0},
      {"op":"backward","microbatch":0,"mhz":1245,"start_s":0,"duration_s":0},
      {"op":"backward","microbatch":1,"mhz":1245,"start_s":0,"duration_s":0}
    ]},
    {"stage": 1, "ops": [
      {"op":"forward","microbatch":0,"mhz":1245,"start_s":0,"duration_s":0},
      {"op":"backward","microbatch":0,"mhz":1245,"start_s":0,"duration_s":0},
      {"op":"forward","microbatch":1,"mhz":1245,"start_s":0,"duration_s":0},
      {"op":"backward","microbatch":1,"mhz":1245,"start_s":0,"duration_s":0}
    ]}
  ]
}
]}');
INSERT INTO "plans" VALUES('j-f52ea3bb0e3f',3,'{"version":3,"purpose":"profile","from_iteration":10,"iterations":3,"settle_iterations":1,"reason":"measures units at 1080 MHz, 1 more behind it","time_s":null,"energy_j":null,"format":"lowgear.plan_version/1","expected_compute_s":[],"plan_of_replica":[0],"plans":[{
  "format": "lowgear.plan/1",
  "policy": "profile",
  "schedule": "1f1b",
  "gpu": "Simulated GPU",
  "microbatches": 2,
  "deadline_s": 0,
  "time_s": 0,
  "energy_j": 0,
  "switches": 0,
  "stages": [
    {"stage": 0, "ops": [
      {"op":"forward","microbatch":0,"mhz":1080,"start_s":0,"duration_s":0},
      {"op":"forward","microbatch":1,"mhz":1080,"start_s":0,"duration_s":0},
      {"op":"backward","microbatch":0,"mhz":1080,"start_s":0,"duration_s":0},
      {"op":"backward","microbatch":1,"mhz":1080,"start_s":0,"duration_s":0}
    ]},
    {"stage": 1, "ops": [
      {"op":"forward","microbatch":0,"mhz":1080,"start_s":0,"duration_s":0},
      {"op":"backward","microbatch":0,"mhz":1080,"start_s":0,"duration_s":0},
      {"op":"forward","microbatch":1,"mhz":1080,"start_s":0,"duration_s":0},
      {"op":"backward","microbatch":1,"mhz":1080,"start_s":0,"duration_s":0}
    ]}
  ]
}
]}');
INSERT INTO "plans" VALUES('j-f52ea3bb0e3f',4,'{"version":4,"purpose":"profile","from_iteration":15,"iterations":3,"settle_iterations":1,"reason":"measures units at 915 MHz","time_s":null,"energy_j":null,"format":"lowgear.plan_version/1","expected_compute_s":[],"plan_of_replica":[0],"plans":[{
  "format": "lowgear.plan/1",
  "policy": "profile",
  "schedule": "1f1b",
  "gpu": "Simulated GPU",
  "microbatches": 2,
  "deadline_s": 0,
  "time_s": 0,
  "energy_j": 0,
  "switches": 0,
  "stages": [
    {"stage": 0, "ops": [
      {"op":"forward","microbatch":0,"mhz":915,"start_s":0,"duration_s":0},
      {"op":"forward","microbatch":1,"mhz":915,"start_s":0,"duration_s":0},
      {"op":"backward","microbatch":0,"mhz":915,"start_s":0,"duration_s":0},
      {"op":"backward","microbatch":1,"mhz":915,"start_s":0,"duration_s":0}
    ]},
    {"stage": 1, "ops": [
      {"op":"forward","microbatch":0,"mhz":915,"start_s":0,"duration_s":0},
      {"op":"backward","microbatch":0,"mhz":915,"start_s":0,"duration_s":0},
      {"op":"forward","microbatch":1,"mhz":915,"start_s":0,"duration_s":0},
      {"op":"backward","microbatch":1,"mhz":915,"start_s":0,"duration_s":0}
    ]}
  ]
}
]}');
INSERT INTO "plans" VALUES('j-f52ea3bb0e3f',5,'{"version":5,"purpose":"train","from_iteration":46,"iterations":0,"settle_iterations":0,"reason":"planned from a profile of 4 clocks","time_s":0.18000000000000002,"energy_j":87.34098015541294,"format":"lowgear.plan_version/1","expected_compute_s":[[0.14665219456404785,0.12]],"plan_of_replica":[0],"plans":[{
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
INSERT INTO "plans" VALUES('j-2afc0bf4689f',1,'{"version":1,"purpose":"baseline","from_iteration":0,"iterations":5,"settle_iterations":1,"reason":"full clocks, to compare with","time_s":null,"energy_j":null,"format":"lowgear.plan_version/1","expected_compute_s":[],"plan_of_replica":[0],"plans":[{
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
INSERT INTO "plans" VALUES('j-2afc0bf4689f',2,'{"version":2,"purpose":"train","from_iteration":22,"iterations":0,"settle_iterations":0,"reason":"planned from a profile that was known","time_s":0.18000000000000002,"energy_j":87.34098015541294,"format":"lowgear.plan_version/1","expected_compute_s":[[0.14665219456404785,0.12]],"plan_of_replica":[0],"plans":[{
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
INSERT INTO "ranks" VALUES('j-2afc0bf4689f',0,'{"rank":0,"pp_rank":0,"dp_rank":0,"tp_rank":0,"instance":"instance-0","host":"node-1","gpu_uuid":"GPU-0","gpu":"Simulated GPU","simulated":true,"clocks_mhz":[1410,1395,1380,1365,1350,1335,1320,1305,1290,1275,1260,1245,1230,1215,1200,1185,1170,1155,1140,1125,1110,1095,1080,1065,1050,1035,1020,1005,990,975,960,945,930,915],"power_limit_w":400.0,"follows_plans":true,"key":"dbcbbad813aab6c39a21efae4b731a21","finished":false}');
INSERT INTO "ranks" VALUES('j-2afc0bf4689f',1,'{"rank":1,"pp_rank":1,"dp_rank":0,"tp_rank":0,"instance":"instance-1","host":"node-1","gpu_uuid":"GPU-1","gpu":"Simulated GPU","simulated":true,"clocks_mhz":[1410,1395,1380,1365,1350,1335,1320,1305,1290,1275,1260,1245,1230,1215,1200,1185,1170,1155,1140,1125,1110,1095,1080,1065,1050,1035,1020,1005,990,975,960,945,930,915],"power_limit_w":400.0,"follows_plans":true,"key":"b068097bedf00a6fd9a7d719a8f86df9","finished":false}');
INSERT INTO "ranks" VALUES('j-f52ea3bb0e3f',0,'{"rank":0,"pp_rank":0,"dp_rank":0,"tp_rank":0,"instance":"instance-0","host":"node-1","gpu_uuid":"GPU-0","gpu":"Simulated GPU","simulated":true,"clocks_mhz":[1410,1395,1380,1365,1350,1335,1320,1305,1290,1275,1260,1245,1230,1215,1200,1185,1170,1155,1140,1125,1110,1095,1080,1065,1050,1035,1020,1005,990,975,960,945,930,915],"power_limit_w":400.0,"follows_plans":true,"key":"ffdf568064d4fd88305a04a24ff40e84","finished":true}');
INSERT INTO "ranks" VALUES('j-f52ea3bb0e3f',1,'{"rank":1,"pp_rank":1,"dp_rank":0,"tp_rank":0,"instance":"instance-1","host":"node-1","gpu_uuid":"GPU-1","gpu":"Simulated GPU","simulated":true,"clocks_mhz":[1410,1395,1380,1365,1350,1335,1320,1305,1290,1275,1260,1245,1230,1215,1200,1185,1170,1155,1140,1125,1110,1095,1080,1065,1050,1035,1020,1005,990,975,960,945,930,915],"power_limit_w":400.0,"follows_plans":true,"key":"7b5291e1707700fa30e618c80e149e92","finished":true}');
CREATE TABLE reports (
  job TEXT NOT NULL, first_iteration INTEGER NOT NULL, rank INTEGER NOT NULL, last_iteration INTEGER NOT NULL,
  document TEXT NOT NULL, PRIMARY KEY (job, first_iteration, rank)
) WITHOUT ROWID;
INSERT INTO "reports" VALUES('j-2afc0bf4689f',0,0,0,'{"rank":0,"reports":[{"iteration":0,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',0,1,0,'{"rank":1,"reports":[{"iteration":0,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',1,0,1,'{"rank":0,"reports":[{"iteration":1,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',1,1,1,'{"rank":1,"reports":[{"iteration":1,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',2,0,2,'{"rank":0,"reports":[{"iteration":2,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',2,1,2,'{"rank":1,"reports":[{"iteration":2,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',3,0,3,'{"rank":0,"reports":[{"iteration":3,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',3,1,3,'{"rank":1,"reports":[{"iteration":3,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',4,0,4,'{"rank":0,"reports":[{"iteration":4,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',4,1,4,'{"rank":1,"reports":[{"iteration":4,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',5,0,5,'{"rank":0,"reports":[{"iteration":5,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',5,1,5,'{"rank":1,"reports":[{"iteration":5,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',6,0,6,'{"rank":0,"reports":[{"iteration":6,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',6,1,6,'{"rank":1,"reports":[{"iteration":6,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',7,0,7,'{"rank":0,"reports":[{"iteration":7,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',7,1,7,'{"rank":1,"reports":[{"iteration":7,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',8,0,8,'{"rank":0,"reports":[{"iteration":8,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',8,1,8,'{"rank":1,"reports":[{"iteration":8,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',9,0,9,'{"rank":0,"reports":[{"iteration":9,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',9,1,9,'{"rank":1,"reports":[{"iteration":9,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',10,0,10,'{"rank":0,"reports":[{"iteration":10,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',10,1,10,'{"rank":1,"reports":[{"iteration":10,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',11,0,11,'{"rank":0,"reports":[{"iteration":11,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',11,1,11,'{"rank":1,"reports":[{"iteration":11,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',12,0,12,'{"rank":0,"reports":[{"iteration":12,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',12,1,12,'{"rank":1,"reports":[{"iteration":12,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',13,0,13,'{"rank":0,"reports":[{"iteration":13,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',13,1,13,'{"rank":1,"reports":[{"iteration":13,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',14,0,14,'{"rank":0,"reports":[{"iteration":14,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',14,1,14,'{"rank":1,"reports":[{"iteration":14,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',15,0,15,'{"rank":0,"reports":[{"iteration":15,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',15,1,15,'{"rank":1,"reports":[{"iteration":15,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',16,0,16,'{"rank":0,"reports":[{"iteration":16,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',16,1,16,'{"rank":1,"reports":[{"iteration":16,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',17,0,17,'{"rank":0,"reports":[{"iteration":17,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',17,1,17,'{"rank":1,"reports":[{"iteration":17,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',18,0,18,'{"rank":0,"reports":[{"iteration":18,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',18,1,18,'{"rank":1,"reports":[{"iteration":18,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',19,0,19,'{"rank":0,"reports":[{"iteration":19,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',19,1,19,'{"rank":1,"reports":[{"iteration":19,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',20,0,20,'{"rank":0,"reports":[{"iteration":20,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',20,1,20,'{"rank":1,"reports":[{"iteration":20,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',21,0,21,'{"rank":0,"reports":[{"iteration":21,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',21,1,21,'{"rank":1,"reports":[{"iteration":21,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',22,0,22,'{"rank":0,"reports":[{"iteration":22,"plan_version":2,"time_s":0.18018,"compute_s":0.14665219456404785,"energy_j":40.55538015541295,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":225.0825849451268,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',22,1,22,'{"rank":1,"reports":[{"iteration":22,"plan_version":2,"time_s":0.18018,"compute_s":0.12,"energy_j":46.8144,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":259.8201798201798,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',23,0,23,'{"rank":0,"reports":[{"iteration":23,"plan_version":2,"time_s":0.18036000000000002,"compute_s":0.14665219456404785,"energy_j":40.56978015541294,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":224.93779194617952,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',23,1,23,'{"rank":1,"reports":[{"iteration":23,"plan_version":2,"time_s":0.18036000000000002,"compute_s":0.12,"energy_j":46.8288,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":259.6407185628742,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',24,0,24,'{"rank":0,"reports":[{"iteration":24,"plan_version":2,"time_s":0.18000000000000002,"compute_s":0.14665219456404785,"energy_j":40.540980155412946,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":225.2276675300719,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-2afc0bf4689f',24,1,24,'{"rank":1,"reports":[{"iteration":24,"plan_version":2,"time_s":0.18000000000000002,"compute_s":0.12,"energy_j":46.800000000000004,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":260.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',0,0,0,'{"rank":0,"reports":[{"iteration":0,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',0,1,0,'{"rank":1,"reports":[{"iteration":0,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',1,0,1,'{"rank":0,"reports":[{"iteration":1,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',1,1,1,'{"rank":1,"reports":[{"iteration":1,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',2,0,2,'{"rank":0,"reports":[{"iteration":2,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',2,1,2,'{"rank":1,"reports":[{"iteration":2,"plan_version":1,"time_s":0.3006,"compute_s":0.12,"energy_j":56.448,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.78443113772457,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',3,0,3,'{"rank":0,"reports":[{"iteration":3,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',3,1,3,'{"rank":1,"reports":[{"iteration":3,"plan_version":1,"time_s":0.3,"compute_s":0.12,"energy_j":56.4,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":188.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',4,0,4,'{"rank":0,"reports":[{"iteration":4,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',4,1,4,'{"rank":1,"reports":[{"iteration":4,"plan_version":1,"time_s":0.30029999999999996,"compute_s":0.12,"energy_j":56.42399999999999,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":187.8921078921079,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',5,0,5,'{"rank":0,"reports":[{"iteration":5,"plan_version":2,"time_s":0.3140168632590428,"compute_s":0.13339008309285713,"energy_j":52.65536910396365,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":167.68325292303334,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',5,1,5,'{"rank":1,"reports":[{"iteration":5,"plan_version":2,"time_s":0.3140168632590428,"compute_s":0.13339008309285713,"energy_j":52.65536910396365,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":167.68325292303334,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',6,0,6,'{"rank":0,"reports":[{"iteration":6,"plan_version":2,"time_s":0.3133900830928571,"compute_s":0.13339008309285713,"energy_j":52.60522669066879,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":167.8586194288794,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',6,1,6,'{"rank":1,"reports":[{"iteration":6,"plan_version":2,"time_s":0.3133900830928571,"compute_s":0.13339008309285713,"energy_j":52.60522669066879,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":167.8586194288794,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',7,0,7,'{"rank":0,"reports":[{"iteration":7,"plan_version":2,"time_s":0.31370347317594993,"compute_s":0.13339008309285713,"energy_j":52.63029789731622,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":167.77084858029912,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',7,1,7,'{"rank":1,"reports":[{"iteration":7,"plan_version":2,"time_s":0.31370347317594993,"compute_s":0.13339008309285713,"energy_j":52.63029789731622,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":167.77084858029912,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',8,0,8,'{"rank":0,"reports":[{"iteration":8,"plan_version":2,"time_s":0.3140168632590428,"compute_s":0.13339008309285713,"energy_j":52.65536910396365,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":167.68325292303334,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',8,1,8,'{"rank":1,"reports":[{"iteration":8,"plan_version":2,"time_s":0.3140168632590428,"compute_s":0.13339008309285713,"energy_j":52.65536910396365,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":167.68325292303334,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',9,0,9,'{"rank":0,"reports":[{"iteration":9,"plan_version":2,"time_s":0.3133900830928571,"compute_s":0.13339008309285713,"energy_j":52.60522669066879,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":167.8586194288794,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',9,1,9,'{"rank":1,"reports":[{"iteration":9,"plan_version":2,"time_s":0.3133900830928571,"compute_s":0.13339008309285713,"energy_j":52.60522669066879,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":167.8586194288794,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',10,0,10,'{"rank":0,"reports":[{"iteration":10,"plan_version":3,"time_s":0.33085506140186466,"compute_s":0.15052453686499973,"energy_j":49.798196241235516,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":150.51362983608524,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',10,1,10,'{"rank":1,"reports":[{"iteration":10,"plan_version":3,"time_s":0.33085506140186466,"compute_s":0.15052453686499973,"energy_j":49.798196241235516,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":150.51362983608524,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',11,0,11,'{"rank":0,"reports":[{"iteration":11,"plan_version":3,"time_s":0.3311855859387297,"compute_s":0.15052453686499973,"energy_j":49.824638204184716,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":150.4432569520173,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',11,1,11,'{"rank":1,"reports":[{"iteration":11,"plan_version":3,"time_s":0.3311855859387297,"compute_s":0.15052453686499973,"energy_j":49.824638204184716,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":150.4432569520173,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',12,0,12,'{"rank":0,"reports":[{"iteration":12,"plan_version":3,"time_s":0.3305245368649997,"compute_s":0.15052453686499973,"energy_j":49.771754278286316,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":150.58414346592133,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',12,1,12,'{"rank":1,"reports":[{"iteration":12,"plan_version":3,"time_s":0.3305245368649997,"compute_s":0.15052453686499973,"energy_j":49.771754278286316,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":150.58414346592133,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',13,0,13,'{"rank":0,"reports":[{"iteration":13,"plan_version":3,"time_s":0.33085506140186466,"compute_s":0.15052453686499973,"energy_j":49.798196241235516,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":150.51362983608524,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',13,1,13,'{"rank":1,"reports":[{"iteration":13,"plan_version":3,"time_s":0.33085506140186466,"compute_s":0.15052453686499973,"energy_j":49.798196241235516,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":150.51362983608524,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',14,0,14,'{"rank":0,"reports":[{"iteration":14,"plan_version":3,"time_s":0.3311855859387297,"compute_s":0.15052453686499973,"energy_j":49.824638204184716,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":150.4432569520173,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',14,1,14,'{"rank":1,"reports":[{"iteration":14,"plan_version":3,"time_s":0.3311855859387297,"compute_s":0.15052453686499973,"energy_j":49.824638204184716,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":150.4432569520173,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',15,0,15,'{"rank":0,"reports":[{"iteration":15,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',15,1,15,'{"rank":1,"reports":[{"iteration":15,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',16,0,16,'{"rank":0,"reports":[{"iteration":16,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',16,1,16,'{"rank":1,"reports":[{"iteration":16,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',17,0,17,'{"rank":0,"reports":[{"iteration":17,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',17,1,17,'{"rank":1,"reports":[{"iteration":17,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',18,0,18,'{"rank":0,"reports":[{"iteration":18,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',18,1,18,'{"rank":1,"reports":[{"iteration":18,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',19,0,19,'{"rank":0,"reports":[{"iteration":19,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',19,1,19,'{"rank":1,"reports":[{"iteration":19,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',20,0,20,'{"rank":0,"reports":[{"iteration":20,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',20,1,20,'{"rank":1,"reports":[{"iteration":20,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',21,0,21,'{"rank":0,"reports":[{"iteration":21,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',21,1,21,'{"rank":1,"reports":[{"iteration":21,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',22,0,22,'{"rank":0,"reports":[{"iteration":22,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',22,1,22,'{"rank":1,"reports":[{"iteration":22,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',23,0,23,'{"rank":0,"reports":[{"iteration":23,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',23,1,23,'{"rank":1,"reports":[{"iteration":23,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',24,0,24,'{"rank":0,"reports":[{"iteration":24,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',24,1,24,'{"rank":1,"reports":[{"iteration":24,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',25,0,25,'{"rank":0,"reports":[{"iteration":25,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',25,1,25,'{"rank":1,"reports":[{"iteration":25,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',26,0,26,'{"rank":0,"reports":[{"iteration":26,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',26,1,26,'{"rank":1,"reports":[{"iteration":26,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',27,0,27,'{"rank":0,"reports":[{"iteration":27,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',27,1,27,'{"rank":1,"reports":[{"iteration":27,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',28,0,28,'{"rank":0,"reports":[{"iteration":28,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',28,1,28,'{"rank":1,"reports":[{"iteration":28,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',29,0,29,'{"rank":0,"reports":[{"iteration":29,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',29,1,29,'{"rank":1,"reports":[{"iteration":29,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',30,0,30,'{"rank":0,"reports":[{"iteration":30,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',30,1,30,'{"rank":1,"reports":[{"iteration":30,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',31,0,31,'{"rank":0,"reports":[{"iteration":31,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',31,1,31,'{"rank":1,"reports":[{"iteration":31,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',32,0,32,'{"rank":0,"reports":[{"iteration":32,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',32,1,32,'{"rank":1,"reports":[{"iteration":32,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',33,0,33,'{"rank":0,"reports":[{"iteration":33,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',33,1,33,'{"rank":1,"reports":[{"iteration":33,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',34,0,34,'{"rank":0,"reports":[{"iteration":34,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',34,1,34,'{"rank":1,"reports":[{"iteration":34,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',35,0,35,'{"rank":0,"reports":[{"iteration":35,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',35,1,35,'{"rank":1,"reports":[{"iteration":35,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',36,0,36,'{"rank":0,"reports":[{"iteration":36,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',36,1,36,'{"rank":1,"reports":[{"iteration":36,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',37,0,37,'{"rank":0,"reports":[{"iteration":37,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',37,1,37,'{"rank":1,"reports":[{"iteration":37,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',38,0,38,'{"rank":0,"reports":[{"iteration":38,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',38,1,38,'{"rank":1,"reports":[{"iteration":38,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',39,0,39,'{"rank":0,"reports":[{"iteration":39,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',39,1,39,'{"rank":1,"reports":[{"iteration":39,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',40,0,40,'{"rank":0,"reports":[{"iteration":40,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',40,1,40,'{"rank":1,"reports":[{"iteration":40,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',41,0,41,'{"rank":0,"reports":[{"iteration":41,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',41,1,41,'{"rank":1,"reports":[{"iteration":41,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',42,0,42,'{"rank":0,"reports":[{"iteration":42,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',42,1,42,'{"rank":1,"reports":[{"iteration":42,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',43,0,43,'{"rank":0,"reports":[{"iteration":43,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',43,1,43,'{"rank":1,"reports":[{"iteration":43,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',44,0,44,'{"rank":0,"reports":[{"iteration":44,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',44,1,44,'{"rank":1,"reports":[{"iteration":44,"plan_version":4,"time_s":0.3540109979063519,"compute_s":0.1733043891280957,"energy_j":48.20284014333404,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.16198487733243,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',45,0,45,'{"rank":0,"reports":[{"iteration":45,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',45,1,45,'{"rank":1,"reports":[{"iteration":45,"plan_version":4,"time_s":0.3533043891280957,"compute_s":0.1733043891280957,"energy_j":48.14631144107355,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.2743088470871,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',46,0,46,'{"rank":0,"reports":[{"iteration":46,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',46,1,46,'{"rank":1,"reports":[{"iteration":46,"plan_version":4,"time_s":0.35365769351722376,"compute_s":0.1733043891280957,"energy_j":48.1745757922038,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":136.21809075633075,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',47,0,47,'{"rank":0,"reports":[{"iteration":47,"plan_version":5,"time_s":0.18036000000000002,"compute_s":0.14665219456404785,"energy_j":40.56978015541294,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":224.93779194617952,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',47,1,47,'{"rank":1,"reports":[{"iteration":47,"plan_version":5,"time_s":0.18036000000000002,"compute_s":0.12,"energy_j":46.8288,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":259.6407185628742,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',48,0,48,'{"rank":0,"reports":[{"iteration":48,"plan_version":5,"time_s":0.18000000000000002,"compute_s":0.14665219456404785,"energy_j":40.540980155412946,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":225.2276675300719,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
INSERT INTO "reports" VALUES('j-f52ea3bb0e3f',48,1,48,'{"rank":1,"reports":[{"iteration":48,"plan_version":5,"time_s":0.18000000000000002,"compute_s":0.12,"energy_j":46.800000000000004,"energy_error_j":0.5,"throttled_power":0.0,"throttled_thermal":0.0}],"gpu":{"power_w":260.0,"sm_clock_mhz":1300.0,"temperature_c":60.0}}');
CREATE INDEX jobs_by_end ON jobs (finished_s, created_s);
COMMIT;
