#include "agent/mps/mps_sharing.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "agent/lease/lease_table.h"
#include "base/core/error.h"
#include "base/core/files/user_database.h"
#include "hardware/gpu/gpu.h"

namespace lowgear::agent {

void MpsShareTable::require_together(const MpsShare& share, const MpsShare& other) {
  const std::string& gpu = share.gpu_uuid;
  if (other.owner.uid != share.owner.uid) {
    throw GpuBusy(
        fmt::format("GPU {} has a share of user {}, and MPS serves one user at a time; try again after that "
                    "job, or use another GPU",
                    gpu, user_name(other.owner.uid)));
  }
  if (!share.request.job.empty() && share.request.job == other.request.job) {
    throw GpuBusy(
        fmt::format("another rank of job {} has a share of GPU {}, and NCCL refuses two ranks of a "
                    "communicator on one GPU; give each rank a GPU of its own",
                    quote(share.request.job), gpu));
  }
  if (share.request.client == other.request.client) {
    throw GpuBusy(fmt::format("GPU {} has a client {} already; choose another name", gpu, quote(other.request.client)));
  }
}

const MpsShare& MpsShareTable::add(MpsShare share) {
  share.id = last_id_ + 1;
  if (share.request.client.empty()) {
    share.request.client = share.request.job.empty() ? fmt::format("share-{}", share.id) : share.request.job;
  }
  const auto is_same = [&](const MpsShare& other) {
    return other.gpu_uuid == share.gpu_uuid && other.process == share.process;
  };
  int others_percent = 0;
  for (const auto& [id, other] : shares_) {
    if (other.gpu_uuid != share.gpu_uuid || is_same(other)) continue;
    require_together(share, other);
    others_percent += other.request.percent;
  }
  if (others_percent + share.request.percent > max_percent_) {
    throw GpuBusy(
        fmt::format("{} % of GPU {} are given already, and {} % more are above the {} % of max_percent; shares "
                    "reserve nothing, so the administrator may allow more than 100 %",
                    others_percent, share.gpu_uuid, share.request.percent, max_percent_));
  }
  std::erase_if(shares_, [&](const auto& entry) { return is_same(entry.second); });
  ++last_id_;
  return shares_.emplace(share.id, std::move(share)).first->second;
}

const MpsShare* MpsShareTable::find(std::uint64_t id) const {
  const auto found = shares_.find(id);
  return found == shares_.end() ? nullptr : &found->second;
}

void MpsShareTable::remove(std::uint64_t id) { shares_.erase(id); }

int MpsShareTable::sum_percent(std::string_view gpu_uuid) const {
  int sum = 0;
  for (const auto& [id, share] : shares_) {
    if (share.gpu_uuid == gpu_uuid) sum += share.request.percent;
  }
  return sum;
}

namespace {

namespace fs = std::filesystem;

/// The program itself: what root runs may not be another user's choice.
fs::path trusted_program(const fs::path& program) {
  std::error_code error;
  const fs::path file = fs::canonical(program, error);
  if (error) {
    throw InputError(fmt::format("mps.program: {}: {}; it comes with NVIDIA's driver (Debian: nvidia-cuda-mps)",
                                 printable(program.string()), error.message()));
  }
  require_trusted_file(file);
  if (::access(file.c_str(), X_OK) != 0) {
    throw InputError(fmt::format("mps.program: {}: may not be executed", printable(file.string())));
  }
  return file;
}

void make_trusted_folder(const fs::path& folder) {
  constexpr mode_t kMode = 0755;
  constexpr std::size_t kLongestName = 64;  // of a UUID and a socket below it
  if (folder.string().size() + kLongestName >= sizeof(sockaddr_un::sun_path)) {
    throw InputError(fmt::format("mps.folder: {}: is too long for the names of sockets", printable(folder.string())));
  }
  if (::mkdir(folder.c_str(), kMode) == 0) {
    ::chmod(folder.c_str(), kMode);  // whatever the umask is
  } else if (errno != EEXIST) {
    throw InputError(fmt::format("mps.folder: {}: cannot be made: {}", printable(folder.string()),
                                 std::generic_category().message(errno)));
  }
  require_trusted_folder(folder);
}

void require_other_rank_elsewhere(const MpsShareRequest& request, const std::string& gpu_uuid, pid_t caller,
                                  const std::vector<LeaseStatus>& leases) {
  for (const LeaseStatus& lease : leases) {
    const bool same_rank = request.rank && *request.rank == lease.rank;
    if (lease.gpu_uuid != gpu_uuid || lease.owner.pid == caller || request.job.empty() || same_rank) continue;
    if (lease.job != request.job) continue;
    throw GpuBusy(
        fmt::format("rank {} of job {} holds a lease of GPU {}, and NCCL refuses two ranks of a communicator "
                    "on one GPU; give each rank a GPU of its own",
                    lease.rank.value_or(0), quote(lease.job), gpu_uuid));
  }
}

}  // namespace

MpsSharing::MpsSharing(boost::asio::io_context& io, MpsOptions options, const std::vector<MpsGpu>& gpus,
                       MpsEnvironment environment)
    : io_(io), options_(std::move(options)), environment_(std::move(environment)), shares_(options_.max_percent) {
  const std::string refusal = prepare();
  for (const MpsGpu& gpu : gpus) {
    Managed managed{.gpu = gpu, .daemon = nullptr};
    if (managed.gpu.refusal.empty()) managed.gpu.refusal = refusal;
    if (managed.gpu.refusal.empty()) {
      managed.daemon = std::make_unique<MpsDaemon>(io_, options_, gpu.identity.uuid, environment_.messages);
      managed.daemon->start();
    } else if (environment_.messages.warn) {
      environment_.messages.warn(managed.gpu.refusal);
    }
    gpus_.push_back(std::move(managed));
  }
}

std::string MpsSharing::prepare() {
  try {
    options_.folder = fs::absolute(options_.folder).lexically_normal();
    options_.program = trusted_program(options_.program);
    make_trusted_folder(options_.folder);
    end_stray_daemons(options_.folder, options_.program.filename().string(), environment_.messages.note);
    return "";
  } catch (const std::exception& error) {
    return fmt::format("no MPS daemon: {}", error.what());
  }
}

std::vector<MpsDaemonStatus> MpsSharing::daemons() const {
  std::vector<MpsDaemonStatus> statuses;
  for (const Managed& managed : gpus_) {
    MpsDaemonStatus status{.gpu_uuid = managed.gpu.identity.uuid,
                           .gpu_index = managed.gpu.identity.index,
                           .problem = managed.gpu.refusal,
                           .pipe_directory = {},
                           .sum_percent = shares_.sum_percent(managed.gpu.identity.uuid)};
    if (const MpsDaemon* daemon = managed.daemon.get()) {
      status.state = daemon->state();
      status.pid = daemon->pid();
      status.restarts = daemon->restarts();
      status.problem = daemon->problem();
      status.pipe_directory = daemon->folders().pipe().string();
    }
    statuses.push_back(std::move(status));
  }
  return statuses;
}

const MpsSharing::Managed& MpsSharing::find(std::string_view gpu) const {
  for (const Managed& managed : gpus_) {
    if (gpu::is_called(managed.gpu.identity, gpu)) return managed;
  }
  throw NotFound(
      fmt::format("GPU {} has no MPS daemon of this agent; its configuration names such GPUs in mps.gpus", quote(gpu)));
}

void MpsSharing::require_may_share(const Peer& peer) const {
  if (peer.uid == 0 || peer.gid == options_.group || environment_.in_group(peer.uid, options_.group)) return;
  throw AccessDenied(fmt::format("user {} may not share GPUs; mps.group of the agent's configuration may", peer.uid));
}

const MpsShare& MpsSharing::open(const Peer& peer, std::string_view gpu, MpsShareRequest request,
                                 const std::vector<LeaseStatus>& leases) {
  require_may_share(peer);
  const Managed& managed = find(gpu);
  const std::string& uuid = managed.gpu.identity.uuid;
  if (!managed.daemon) throw gpu::GpuError(gpu::GpuErrorCode::not_supported, managed.gpu.refusal);
  if (managed.daemon->state() != MpsState::running) {
    const std::string& problem = managed.daemon->problem();
    throw gpu::GpuError(gpu::GpuErrorCode::driver_error,
                        problem.empty() ? fmt::format("{}: the MPS daemon starts; try again", uuid) : problem);
  }
  const std::optional<ProcessIdentity> process = identify(*environment_.processes, peer.pid);
  if (!process) {
    throw AccessDenied("the agent cannot see the calling process, because it runs in another pid namespace");
  }
  require_other_rank_elsewhere(request, uuid, peer.pid, leases);
  const MpsShare& share = shares_.add({.id = 0,
                                       .gpu_uuid = uuid,
                                       .request = std::move(request),
                                       .owner = peer,
                                       .process = *process,
                                       .since = std::chrono::steady_clock::now()});
  std::erase_if(watches_, [this](const auto& watch) { return shares_.find(watch.first) == nullptr; });
  watches_[share.id] = ProcessWatch::start(io_, *environment_.processes, *process, [this, id = share.id] {
    shares_.remove(id);
    watches_.erase(id);
  });
  if (environment_.messages.note) {
    environment_.messages.note(fmt::format("{}: share {} of {} % for {}, process {} of user {}", uuid, share.id,
                                           share.request.percent, printable(share.request.client), peer.pid,
                                           user_name(peer.uid)));
  }
  return share;
}

void MpsSharing::close(const Peer& peer, std::uint64_t share_id) {
  const MpsShare* share = shares_.find(share_id);
  if (share == nullptr) throw NotFound(fmt::format("there is no share {}; GET /v1/mps lists them", share_id));
  if (peer.uid != 0 && peer.uid != share->owner.uid) {
    throw AccessDenied(fmt::format("share {} is of user {}", share_id, user_name(share->owner.uid)));
  }
  shares_.remove(share_id);
  watches_.erase(share_id);
}

std::map<std::string, std::string> MpsSharing::environment_of(const MpsShare& share) const {
  const MpsFolders folders{options_.folder / share.gpu_uuid};
  return {{"CUDA_MPS_PIPE_DIRECTORY", folders.pipe().string()},
          {"CUDA_MPS_LOG_DIRECTORY", folders.log().string()},
          {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", fmt::format("{}", share.request.percent)},
          {"CUDA_VISIBLE_DEVICES", share.gpu_uuid}};
}

std::vector<std::string> MpsSharing::stop() {
  for (const auto& [id, share] : shares_.all()) {
    if (!environment_.messages.warn) break;
    environment_.messages.warn(
        fmt::format("{}: the MPS daemon ends, and with it CUDA in process {} of share {} ({}) unless that ends within "
                    "{} s",
                    share.gpu_uuid, share.process.pid, id, printable(share.request.client),
                    std::chrono::duration<double>(options_.grace).count()));
  }
  for (const Managed& managed : gpus_) {
    if (managed.daemon) managed.daemon->begin_to_end();
  }
  std::vector<std::string> left;
  for (const Managed& managed : gpus_) {
    if (!managed.daemon) continue;
    if (std::string problem = managed.daemon->end(); !problem.empty()) left.push_back(std::move(problem));
  }
  return left;
}

namespace {

std::string refusal_of(const gpu::GpuSurvey& gpu) {
  const std::string& uuid = gpu.identity.uuid;
  if (gpu.identity.mig_enabled) {
    return fmt::format("{}: no MPS daemon: MIG is on, and jobs get instances of this GPU; name another GPU in mps.gpus",
                       uuid);
  }
  if (gpu.compute_mode == gpu::ComputeMode::prohibited) {
    return fmt::format(
        "{}: no MPS daemon: its compute mode lets no process use it; sudo nvidia-smi -i {} -c DEFAULT, "
        "and restart the agent",
        uuid, gpu.identity.pci_address);
  }
  return "";
}

}  // namespace

std::vector<MpsGpu> find_mps_gpus(const std::vector<std::string>& names, const gpu::NvmlSurvey& survey) {
  std::vector<MpsGpu> found;
  for (const std::string& name : names) {
    const auto gpu = std::ranges::find_if(
        survey.gpus, [&](const gpu::GpuSurvey& each) { return gpu::is_called(each.identity, name); });
    if (gpu == survey.gpus.end()) {
      MpsGpu absent;
      absent.identity.uuid = name;
      absent.identity.index = -1;
      absent.refusal = fmt::format(
          "no MPS daemon for {}: there is no such GPU; lowgear doctor lists the GPUs of this machine", quote(name));
      found.push_back(std::move(absent));
      continue;
    }
    const bool again =
        std::ranges::any_of(found, [&](const MpsGpu& other) { return other.identity.uuid == gpu->identity.uuid; });
    if (!again) found.push_back({.identity = gpu->identity, .refusal = refusal_of(*gpu)});
  }
  return found;
}

}  // namespace lowgear::agent
