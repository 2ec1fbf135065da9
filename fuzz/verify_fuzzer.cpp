/// Replaces one file of a sound output folder by any bytes and verifies it. The first byte says which file:
/// c(ertificate), f(rontier), j(son of a plan), o(p profile), p(lans' table), r(un) or s(chedule). No certificate but
/// one of the true frontier may be accepted.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/core/error.h"
#include "planning/planner/verifier/verify.h"

namespace {

constexpr const char* kRun =
    R"({"format": "lowgear.run/1", "version": "0.1.0", "policy": "lowgear", "profile": "p.csv", "stages": 2,
"microbatches": 2, "schedule": "1f1b", "blocking_power_w": [80, 75.5], "frontier_method": "exact", "epsilon": 0,
"granularity": "per_op", "late_by_s": 0}
)";

constexpr const char* kProfile = R"(stage,instruction,frequency,time,energy
0,forward,1400,0.05,15
0,forward,1000,0.0625,12
0,backward,1400,0.1,31
0,backward,1200,0.11,28.5
0,backward,1000,0.125,26
1,forward,1400,0.05,16
1,forward,1000,0.0725,12
1,backward,1400,0.1,31
1,backward,1200,0.11,27.5
1,backward,1000,0.125,25
)";

constexpr const char* kSchedule = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";

constexpr const char* kFrontier = R"(time_s,energy_j
0.45,198.32499999999501
0.47,192.92499999999498
0.48,191.179999999995
0.4925,189.123749999995
0.5375,184.723749999985
0.5525,183.35624999998
0.5825,180.75624999997
)";

constexpr const char* kPlans = R"(plan,deadline_s,time_s,energy_j,lower_bound_j,gap_pct,switches
0,0.563075,0.5575,184.75625,182.922916666645,1.00224365911245,2
)";

constexpr const char* kCertificate = R"(lowgear.certificate/1
ops 8
edges 10
vertex 582500000000 155500000000
t 0+1x2:62500000000 2+1x2:125000000000 4+2x2:72500000000 5+2x2:125000000000
f 0+3x3:155500000000 4+1x2:155500000000 7:155500000000
e 1+4x3:155500000000 6+2x2:155500000000
vertex 552500000000 242166666667
t 5+2x2:-15000000000
f 0+3x3:86666666667 4+1x2:86666666667 7:86666666667
e 1+4x3:86666666667 6+2x2:86666666667
vertex 537500000000 246666666667
t 3:-15000000000
f 0+3x3:4500000000 4+1x2:4500000000 7:4500000000
e 1+4x3:4500000000 6+2x2:4500000000
vertex 492500000000 253277777778
t 4+2x2:-22500000000
f 0+3x3:6611111111 4+1x2:6611111111 7:6611111111
e 1+4x3:6611111111 6+2x2:6611111111
vertex 480000000000 320000000000
t 0:-12500000000
f 0+3x3:66722222222 4+1x2:66722222222 7:66722222222
e 1+4x3:66722222222 6+2x2:66722222222
vertex 470000000000 330000000000
t 3:-10000000000
f 0+3x3:10000000000 4+1x2:10000000000 7:10000000000
e 1+4x3:10000000000 6+2x2:10000000000
vertex 450000000000 425500000000
t 5+2x2:-10000000000
f 0+3x3:95500000000 4+1x2:95500000000 7:95500000000
e 1+4x3:95500000000 6+2x2:95500000000
end 7
)";

constexpr const char* kPlan =
    R"({"format": "lowgear.plan/1", "policy": "lowgear", "schedule": "1f1b", "microbatches": 2,
"deadline_s": 0.563075, "time_s": 0.5575, "energy_j": 184.75625, "lower_bound_j": 182.922916666645,
"gap_pct": 1.00224365911245, "switches": 2, "stages": [
{"stage": 0, "ops": [
{"op":"forward","microbatch":0,"mhz":1000,"start_s":0,"duration_s":0.0625},
{"op":"forward","microbatch":1,"mhz":1000,"start_s":0.0625,"duration_s":0.0625},
{"op":"backward","microbatch":0,"mhz":1000,"start_s":0.26,"duration_s":0.125},
{"op":"backward","microbatch":1,"mhz":1000,"start_s":0.4325,"duration_s":0.125}]},
{"stage": 1, "ops": [
{"op":"forward","microbatch":0,"mhz":1000,"start_s":0.0625,"duration_s":0.0725},
{"op":"backward","microbatch":0,"mhz":1000,"start_s":0.135,"duration_s":0.125},
{"op":"forward","microbatch":1,"mhz":1000,"start_s":0.26,"duration_s":0.0725},
{"op":"backward","microbatch":1,"mhz":1400,"start_s":0.3325,"duration_s":0.1}]}]}
)";

constexpr std::size_t kVertices = 7;

lowgear::planner::PlanFolder sound_folder() {
  return {{"run.json", kRun},           {"profile.csv", kProfile}, {"schedule.csv", kSchedule},
          {"frontier.csv", kFrontier},  {"plans.csv", kPlans},     {"certificate.txt", kCertificate},
          {{"plans/00000.json", kPlan}}};
}

std::string* file_named(lowgear::planner::PlanFolder& folder, std::uint8_t letter) {
  switch (letter) {
    case 'c':
      return &folder.certificate.text;
    case 'f':
      return &folder.frontier.text;
    case 'j':
      return &folder.plans.front().text;
    case 'o':
      return &folder.profile.text;
    case 'p':
      return &folder.plans_table.text;
    case 'r':
      return &folder.run.text;
    case 's':
      return &folder.schedule.text;
    default:
      return nullptr;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const lowgear::planner::PlanFolder kSound = sound_folder();
  static const bool kIsSound = lowgear::planner::verify(kSound).ok();
  if (!kIsSound) std::abort();
  if (size == 0) return 0;
  lowgear::planner::PlanFolder folder = kSound;
  std::string* const text = file_named(folder, data[0]);
  if (text == nullptr) return 0;
  text->assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const lowgear::planner::VerifyReport report = lowgear::planner::verify(folder);
    if (data[0] == 'c' && report.ok() && report.vertices != kVertices) std::abort();
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
