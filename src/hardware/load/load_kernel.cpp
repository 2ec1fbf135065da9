#include "hardware/load/load_kernel.h"

#include <fmt/format.h>

#include "base/core/error.h"

namespace lowgear::load {
namespace {

using curve::ProductData;
using curve::ProductType;

// A block: two groups of four warps multiply, the third computes with ordinary multiply-adds or waits.
constexpr unsigned kThreads = 384;
constexpr int kProductWarps = 8;
constexpr int kAccumulators = 128;
constexpr int kInner = 256;     ///< rounds of products in a chunk
constexpr int kLoads = 8;       ///< reads of 16 bytes that a streaming thread has under way
constexpr int kCacheReads = 6;  ///< and one of the third group
constexpr int kMemoryReads = 16;
constexpr int kGroupThreads = 128;
constexpr int kCachedBytes = 1 << 24;
constexpr int kChains = 16;  ///< of multiply-adds in a thread
constexpr int kStreamInner = 512;
constexpr std::uint64_t kStreamStep = std::uint64_t{kThreads} * kLoads * 16;

// Hopper: four stages of a tile of 64 rows for each of two groups, and one of 256 columns, each of 128 bytes.
constexpr int kStages = 4;
constexpr int kRowTileBytes = 64 * 128;
constexpr int kColumnTileBytes = 256 * 128;
constexpr int kStageBytes = 2 * kRowTileBytes + kColumnTileBytes;
constexpr int kStepsPerStage = 4;  ///< of 32 bytes

/// `{f0, f1, ...}`
std::string registers(char letter, int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += fmt::format("{}%{}{}", i == 0 ? "" : ", ", letter, first + i);
  return text + "}";
}

/// Elements that one instruction sums over.
int inner_dimension(ProductType type) {
  constexpr int kRowBytes = 32;
  return kRowBytes / (type == ProductType::fp8 ? 1 : type == ProductType::bf16 ? 2 : 4);
}

std::string_view ptx_type(ProductType type) {
  switch (type) {
    case ProductType::bf16:
      return "bf16";
    case ProductType::fp8:
      return "e4m3";
    case ProductType::tf32:
      return "tf32";
  }
  return "";
}

/// Two rounds of a warpgroup: products of all stages are added to the sums, then subtracted, so that sums neither grow
/// nor come to rest, and every product counts. %rd8, %rd9: descriptors of both tiles.
std::string warpgroup_rounds(ProductType type) {
  std::string text = "  wgmma.fence.sync.aligned;\n";
  const std::string sums = registers('f', 0, kAccumulators);
  const std::string_view transposed = type == ProductType::bf16 ? ", 0, 0" : "";
  for (const int sign : {1, -1}) {
    for (int step = 0; step < kStages * kStepsPerStage; ++step) {
      // In units of 16 bytes.
      const int offset = (step / kStepsPerStage * kStageBytes + step % kStepsPerStage * 32) / 16;
      text += fmt::format("  add.s64 %rd10, %rd8, {0};\n  add.s64 %rd11, %rd9, {0};\n", offset);
      text += fmt::format("  wgmma.mma_async.sync.aligned.m64n256k{0}.f32.{1}.{1} {2}, %rd10, %rd11, %p8, {3}, 1{4};\n",
                          inner_dimension(type), ptx_type(type), sums, sign, transposed);
    }
  }
  return text + "  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;\n";
}

std::string warpgroup_setup() {
  // Both tiles: rows of 128 bytes, swizzled, groups of eight rows 1024 bytes apart.
  const std::uint64_t layout =
      (std::uint64_t{1} << 62U) | (std::uint64_t{1024 >> 4} << 32U) | (std::uint64_t{1} << 16U);
  return fmt::format(
      "  mad.lo.u32 %r20, %r6, {}, %r5;\n"
      "  shr.u32 %r20, %r20, 4;\n  cvt.u64.u32 %rd8, %r20;\n  or.b64 %rd8, %rd8, {};\n"
      "  add.u32 %r21, %r5, {};\n"
      "  shr.u32 %r21, %r21, 4;\n  cvt.u64.u32 %rd9, %r21;\n  or.b64 %rd9, %rd9, {};\n"
      "  setp.eq.u32 %p8, 0, 0;\n",
      kRowTileBytes, layout, 2 * kRowTileBytes, layout);
}

// GPUs without warpgroups: each warp multiplies 4 tiles of rows with 8 of columns, all in registers.
constexpr int kRowTiles = 4;
constexpr int kColumnTiles = 6;
constexpr int kRotations = 4;
constexpr int kFirstRowRegister = 100;
constexpr int kFirstColumnRegister = kFirstRowRegister + 4 * kRowTiles;

/// Two rounds as on Hopper. The second has the rows' signs turned.
std::string warp_rounds(ProductType type) {
  const std::string_view signs = type == ProductType::fp8    ? "0x80808080"
                                 : type == ProductType::bf16 ? "0x80008000"
                                                             : "0x80000000";
  std::string text;
  for (int round = 0; round < 2; ++round) {
    for (int rotation = 0; rotation < kRotations; ++rotation) {
      for (int row = 0; row < kRowTiles; ++row) {
        for (int column = 0; column < kColumnTiles; ++column) {
          const std::string sums = registers('f', 4 * (row * kColumnTiles + column), 4);
          text += fmt::format("  mma.sync.aligned.m16n8k{0}.row.col.f32.{1}.{1}.f32 {2}, {3}, {4}, {2};\n",
                              inner_dimension(type), ptx_type(type), sums,
                              registers('r', kFirstRowRegister + 4 * ((row + rotation) % kRowTiles), 4),
                              registers('r', kFirstColumnRegister + 2 * ((column + 3 * rotation) % kColumnTiles), 2));
        }
      }
    }
    for (int i = 0; i < 4 * kRowTiles; ++i) {
      text += fmt::format("  xor.b32 %r{0}, %r{0}, {1};\n", kFirstRowRegister + i, signs);
    }
  }
  return text;
}

/// %r30 becomes pseudo-random bits of the seed %r31.
constexpr std::string_view kHash =
    "  xor.b32 %r30, %r31, 0x9E3779B9;\n"
    "  shr.u32 %r32, %r30, 16;\n  xor.b32 %r30, %r30, %r32;\n  mul.lo.u32 %r30, %r30, 0x7FEB352D;\n"
    "  shr.u32 %r32, %r30, 15;\n  xor.b32 %r30, %r30, %r32;\n  mul.lo.u32 %r30, %r30, 0x846CA68B;\n"
    "  shr.u32 %r32, %r30, 16;\n  xor.b32 %r30, %r30, %r32;\n";

std::string warp_setup() {
  std::string text = "  mad.lo.u32 %r31, %r4, 1021, %r3;\n";
  for (int i = 0; i < 4 * kRowTiles + 2 * kColumnTiles; ++i) {
    text += fmt::format("  add.u32 %r31, %r31, 7919;\n{}  and.b32 %r30, %r30, %r11;\n  or.b32 %r{}, %r30, %r12;\n",
                        kHash, kFirstRowRegister + i);
  }
  return text;
}

/// Shared memory: elements of the tiles (%r7 bytes), and after them the word that says to stop.
std::string fill_shared() {
  return fmt::format(
      "  shl.b32 %r8, %r3, 2;\n"
      "FILL:\n  setp.ge.u32 %p1, %r8, %r7;\n  @%p1 bra FILLED;\n"
      "  mad.lo.u32 %r31, %r4, 524287, %r8;\n{}"
      "  and.b32 %r30, %r30, %r11;\n  or.b32 %r30, %r30, %r12;\n"
      "  add.u32 %r9, %r5, %r8;\n  st.shared.u32 [%r9], %r30;\n  add.u32 %r8, %r8, {};\n  bra FILL;\nFILLED:\n",
      kHash, kThreads * 4);
}

/// A round of the third group's reads from the place %r`place` on, which then moves within `window`, a mask of bytes.
/// Takes up the reads of the round before it.
std::string third_group_reads(int reads, int place, std::string_view window) {
  std::string text;
  for (int i = 0; i < 4 * reads; ++i) text += fmt::format("  xor.b32 %r16, %r16, %r{};\n", 60 + i);
  text += fmt::format("  add.u32 %r{0}, %r{0}, {1};\n  and.b32 %r{0}, %r{0}, {2};\n", place, reads * kGroupThreads * 16,
                      window);
  text += fmt::format("  cvt.u64.u32 %rd19, %r{};\n  add.s64 %rd19, %rd19, %rd12;\n", place);
  for (int i = 0; i < reads; ++i) {
    text += fmt::format("  ld.global.nc.L1::no_allocate.v4.u32 {}, [%rd19+{}];\n", registers('r', 60 + 4 * i, 4),
                        kGroupThreads * 16 * i);
  }
  return text;
}

/// The third group repeats `body` %r`rounds` times.
std::string third_group_loop(std::string_view label, int rounds, const std::string& body) {
  return fmt::format("  setp.eq.u32 %p2, %r{1}, 0;\n  @%p2 bra NO_{0};\n  mov.u32 %r15, %r{1};\n{0}:\n", label,
                     rounds) +
         body + fmt::format("  sub.u32 %r15, %r15, 1;\n  setp.ne.u32 %p2, %r15, 0;\n  @%p2 bra {0};\nNO_{0}:\n", label);
}

/// z <- z^2 + c, which never comes to rest, and reads of a part of memory that stays in the last-level cache, as the
/// tiles of a product are read. %r13 rounds.
std::string multiply_adds() {
  std::string body = third_group_reads(kCacheReads, 19, std::to_string(kCachedBytes - 1));
  for (int unrolled = 0; unrolled < 16; ++unrolled) {
    for (int i = 0; i < kChains; ++i) body += fmt::format("  fma.rn.f32 %f{0}, %f{0}, %f{0}, %f131;\n", 140 + i);
  }
  return third_group_loop("ADDS", 13, body);
}

/// Reads of a part of memory that no cache holds. %r23 rounds.
std::string memory_reads() { return third_group_loop("MEMORY", 23, third_group_reads(kMemoryReads, 24, "%r22")); }

std::string third_group_setup() {
  std::string text = "  mov.f32 %f131, 0fBFF33333;\n";  // -1.9
  for (int i = 0; i < 4 * kMemoryReads; ++i) text += fmt::format("  mov.u32 %r{}, 0;\n", 60 + i);
  text +=
      "  mul.lo.u32 %r19, %r4, 7919;\n  shl.b32 %r19, %r19, 11;\n  mad.lo.u32 %r19, %r3, 16, %r19;\n  mov.u32 %r24, "
      "%r19;\n";
  for (int i = 0; i < kChains; ++i) {
    text += fmt::format(
        "  mad.lo.u32 %r31, %r3, 31, {};\n{}  and.b32 %r30, %r30, 0x007FFFFF;\n  or.b32 %r30, %r30, 0x3F000000;\n"
        "  mov.b32 %f{}, %r30;\n",
        i, kHash, 140 + i);
  }
  return text;
}

std::string stream() {
  std::string text = fmt::format("  mov.u32 %r15, {};\nREADS:\n", kStreamInner);
  for (int i = 0; i < kLoads; ++i) {
    text += fmt::format("  ld.global.nc.L1::no_allocate.v4.u32 {}, [%rd14+{}];\n", registers('r', 60 + 4 * i, 4),
                        std::uint64_t{kThreads} * 16 * static_cast<std::uint64_t>(i));
  }
  for (int i = 0; i < 4 * kLoads; ++i) text += fmt::format("  xor.b32 %r16, %r16, %r{};\n", 60 + i);
  return text + fmt::format(
                    "  add.s64 %rd14, %rd14, {};\n  setp.ge.u64 %p3, %rd14, %rd15;\n  @%p3 mov.u64 %rd14, %rd13;\n"
                    "  sub.u32 %r15, %r15, 1;\n  setp.ne.u32 %p4, %r15, 0;\n  @%p4 bra READS;\n",
                    kStreamStep);
}

/// The end of every chunk of a role (`PRODUCTS`): all threads of the block meet, the first one counts the chunk and
/// asks whether to stop. The results are used where the block has done no chunk, so never; the compiler cannot know.
std::string end_of_chunks(std::string_view role, unsigned tile_bytes, const std::string& results) {
  return fmt::format(
             "  bar.sync 0;\n  add.s64 %rd6, %rd6, 1;\n  setp.ne.u32 %p10, %r3, 0;\n  @%p10 bra ASKED_{0};\n"
             "  st.volatile.global.u64 [%rd18+{1}], %rd6;\n  ld.volatile.global.u32 %r18, [%rd1];\n"
             "  setp.ge.u64 %p11, %rd6, %rd16;\n  selp.u32 %r18, 1, %r18, %p11;\n  st.shared.u32 [%r5+{2}], %r18;\n"
             "ASKED_{0}:\n  bar.sync 0;\n  ld.volatile.shared.u32 %r18, [%r5+{2}];\n  setp.eq.u32 %p10, %r18, 0;\n"
             "  @%p10 bra CHUNK_{0};\n  setp.ne.u64 %p5, %rd6, 0;\n  @%p5 bra END;\n",
             role, kChunksOffset, tile_bytes) +
         results + "  ret;\n";
}

std::string kept(char letter, int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += fmt::format("  st.volatile.global.{}32 [%rd1], %{}{};\n", letter == 'f' ? "f" : "u", letter, first + i);
  }
  return text;
}

std::string accumulators_zero() {
  std::string text;
  for (int i = 0; i < kAccumulators; ++i) text += fmt::format("  mov.f32 %f{}, 0f00000000;\n", i);
  return text;
}

/// Parameters: control memory, blocks of products, rounds of multiply-adds and of reads beside them, mask of the bytes
/// that those reads walk through, masks of elements, device memory, bytes of a block's region, most chunks.
std::string work_begin(bool warpgroup, unsigned tile_bytes) {
  return fmt::format(
             ".visible .entry work(.param .u64 control, .param .u32 products, .param .u32 adds, .param .u32 reads,\n"
             "  .param .u32 window, .param .u32 and_mask, .param .u32 or_mask, .param .u64 memory, .param .u64 region, "
             ".param .u64 most)\n"
             ".maxntid {}, 1, 1\n.minnctapersm 1\n{{\n"
             "  .reg .pred %p<12>;\n  .reg .b32 %r<160>;\n  .reg .b64 %rd<24>;\n  .reg .f32 %f<160>;\n"
             "  ld.param.u64 %rd1, [control];\n  cvta.to.global.u64 %rd1, %rd1;\n"
             "  ld.param.u32 %r10, [products];\n  ld.param.u32 %r13, [adds];\n"
             "  ld.param.u32 %r23, [reads];\n  ld.param.u32 %r22, [window];\n"
             "  ld.param.u32 %r11, [and_mask];\n  ld.param.u32 %r12, [or_mask];\n"
             "  ld.param.u64 %rd12, [memory];\n  cvta.to.global.u64 %rd12, %rd12;\n"
             "  ld.param.u64 %rd7, [region];\n  ld.param.u64 %rd16, [most];\n"
             "  mov.u32 %r3, %tid.x;\n  mov.u32 %r4, %ctaid.x;\n  shr.u32 %r6, %r3, 7;\n"
             "  mov.u32 %r5, tiles;\n  mov.u32 %r7, {};\n  mov.u32 %r16, 0;\n  mov.u64 %rd6, 0;\n"
             "  mul.wide.u32 %rd18, %r4, 8;\n  add.s64 %rd18, %rd18, %rd1;\n",
             kThreads, tile_bytes) +
         fill_shared() + (warpgroup ? "  fence.proxy.async;\n" : "") +
         "  bar.sync 0;\n  setp.ge.u32 %p6, %r4, %r10;\n  @%p6 bra STREAMS;\n"
         "  setp.ge.u32 %p9, %r6, 2;\n  @%p9 bra THIRD;\n";
}

std::string work_kernel(ProductType type, bool warpgroup, unsigned tile_bytes) {
  std::string text = work_begin(warpgroup, tile_bytes);
  text += accumulators_zero() + (warpgroup ? warpgroup_setup() : warp_setup());
  text += fmt::format("CHUNK_PRODUCTS:\n  mov.u32 %r14, {};\nPRODUCTS:\n", kInner / 2);
  text += warpgroup ? warpgroup_rounds(type) : warp_rounds(type);
  text += "  sub.u32 %r14, %r14, 1;\n  setp.ne.u32 %p1, %r14, 0;\n  @%p1 bra PRODUCTS;\n";
  text += end_of_chunks("PRODUCTS", tile_bytes, kept('f', 0, kAccumulators));
  text += "THIRD:\n" + third_group_setup() + "CHUNK_ADDS:\n" + multiply_adds() + memory_reads();
  text += end_of_chunks("ADDS", tile_bytes, kept('f', 140, kChains) + kept('r', 16, 1));
  // This thread's place in the block's region, its begin and end.
  text +=
      "STREAMS:\n  sub.u32 %r17, %r4, %r10;\n  cvt.u64.u32 %rd13, %r17;\n  mul.lo.u64 %rd13, %rd13, %rd7;\n"
      "  add.s64 %rd13, %rd13, %rd12;\n  add.s64 %rd15, %rd13, %rd7;\n"
      "  mul.wide.u32 %rd17, %r3, 16;\n  add.s64 %rd13, %rd13, %rd17;\n  mov.u64 %rd14, %rd13;\nCHUNK_STREAM:\n";
  text += stream() + end_of_chunks("STREAM", tile_bytes, kept('r', 16, 1));
  return text + "END:\n  ret;\n}\n";
}

std::string fill_kernel() {
  return fmt::format(
      ".visible .entry fill(.param .u64 memory, .param .u64 words)\n{{\n"
      "  .reg .pred %p<2>;\n  .reg .b32 %r<40>;\n  .reg .b64 %rd<8>;\n"
      "  ld.param.u64 %rd1, [memory];\n  cvta.to.global.u64 %rd1, %rd1;\n  ld.param.u64 %rd2, [words];\n"
      "  mov.u32 %r1, %tid.x;\n  mov.u32 %r2, %ctaid.x;\n  mov.u32 %r3, %ntid.x;\n  mov.u32 %r4, %nctaid.x;\n"
      "  mad.lo.u32 %r5, %r2, %r3, %r1;\n  mul.lo.u32 %r6, %r3, %r4;\n"
      "  cvt.u64.u32 %rd3, %r5;\n  cvt.u64.u32 %rd4, %r6;\n"
      "NEXT:\n  setp.ge.u64 %p1, %rd3, %rd2;\n  @%p1 bra DONE;\n"
      "  cvt.u32.u64 %r31, %rd3;\n{}  shl.b64 %rd5, %rd3, 2;\n  add.s64 %rd5, %rd5, %rd1;\n"
      "  st.global.u32 [%rd5], %r30;\n  add.s64 %rd3, %rd3, %rd4;\n  bra NEXT;\nDONE:\n  ret;\n}}\n",
      kHash);
}

}  // namespace

ElementMasks element_masks(ProductType type, ProductData data) {
  if (data == ProductData::zeros) return {0, 0};
  if (data == ProductData::bits) return {0xFFFFFFFF, 0};
  // Finite, with exponents that differ by up to eight, so that sums neither overflow nor ignore terms.
  switch (type) {
    case ProductType::bf16:
      return {0x83FF83FF, 0x3C003C00};
    case ProductType::fp8:
      return {0xBFBFBFBF, 0};
    case ProductType::tf32:
      return {0x83FFFFFF, 0x3C000000};
  }
  return {0, 0};
}

LoadKernel load_kernel(int compute_capability, ProductType type) {
  const int least = type == ProductType::fp8 ? 89 : 80;
  if (compute_capability < least) {
    throw InputError(fmt::format("a GPU of compute capability {}.{} has no products of {}; it needs {}.{} or more",
                                 compute_capability / 10, compute_capability % 10, curve::name(type), least / 10,
                                 least % 10));
  }
  const bool warpgroup = compute_capability == 90;
  const unsigned tile_bytes = warpgroup ? kStages * kStageBytes : 0;
  const double inner = inner_dimension(type);
  LoadKernel kernel;
  kernel.ptx =
      fmt::format(".version {}\n.target sm_{}\n.address_size 64\n.extern .shared .align 1024 .b8 tiles[];\n{}{}",
                  type == ProductType::fp8 && !warpgroup ? "8.4" : "8.0",
                  warpgroup     ? "90a"
                  : least == 89 ? "89"
                                : "80",
                  work_kernel(type, warpgroup, tile_bytes), fill_kernel());
  kernel.threads = kThreads;
  kernel.shared_bytes = tile_bytes + 16;
  kernel.product_operations =
      warpgroup ? 2.0 * kInner * kStages * kStepsPerStage * 2 * 64 * 256 * inner
                : double{kProductWarps} * kInner * kRotations * kRowTiles * kColumnTiles * 2 * 16 * 8 * inner;
  kernel.adds = warpgroup ? 1400 : 500;
  kernel.add_bytes = static_cast<double>(kernel.adds) * kCacheReads * kGroupThreads * 16;
  kernel.reads = warpgroup ? 900 : 320;
  kernel.read_bytes = kMemoryReads * kGroupThreads * 16;
  kernel.stream_bytes = static_cast<double>(kStreamStep) * kStreamInner;
  kernel.region_bytes = kStreamStep;
  return kernel;
}

}  // namespace lowgear::load
