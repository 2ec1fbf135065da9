#pragma once

#include <string>
#include <string_view>

namespace lowgear::agent {

/// The job that a process is of by its control group, which its user cannot leave.
struct ProcessJob {
  std::string kind;    ///< `Slurm job`, `pod`, ...; empty: the control group is of no job manager that is known
  std::string id;      ///< as the control group names it: `4711`, `s5K1KKYAYG5D00`; empty where it names none, or two
  std::string cgroup;  ///< its path
};

/// From the text of /proc/PID/cgroup. Known are the paths of
/// - Slurm: `0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0`, from 26.05 on with the job's SLUID instead
/// of
///   `job_12`, and before version 2 of control groups `4:freezer:/slurm/uid_1000/job_12/step_0`;
/// - PBS: `/pbs_jobs.service/jobid/12.server`; LSF: `/lsf/cluster/job.12.1.7`;
/// - pods of Kubernetes: `/kubepods/burstable/podUID/...`, also as systemd names them;
/// - containers: `/docker/ID`, `/system.slice/docker-ID.scope`, `libpod-ID.scope` and the like.
[[nodiscard]] ProcessJob process_job_of(std::string_view cgroups);

}  // namespace lowgear::agent
