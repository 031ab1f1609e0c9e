// Which lowering serves which op. Names are base names: "add" serves aten::add.Tensor, .Scalar, add_ and the out= forms.
#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "support/fork.h"
#include "torch/record/lower.h"
#include "torch/record/lower_families.h"
#include "trace/ops.h"

namespace escapement {

namespace {

struct Row {
  std::string_view name;
  Lowering lower;
};

// Rows of ops.def that say all of their op.
template <Op op>
bool lower_row(OpCall& call) {
  return info(op).kind == OpKind::reduce ? lower_reduction(call, op) : lower_pointwise(call, op);
}

constexpr Row kRows[] = {
    // pointwise with arguments of their own
    {"add", lower_add}, {"sub", lower_add}, {"subtract", lower_add}, {"rsub", lower_rsub},
    {"multiply", lower_row<Op::mul>},
    {"div", lower_div}, {"divide", lower_div}, {"true_divide", lower_div},
    {"pow", lower_pow}, {"clamp", lower_clamp}, {"clip", lower_clamp}, {"clamp_min", lower_clamp_side}, {"clamp_max", lower_clamp_side},
    {"where", lower_where}, {"masked_fill", lower_masked_fill},
    {"gelu", lower_gelu}, {"gelu_backward", lower_gelu_backward},
    {"log_sigmoid", lower_log_sigmoid}, {"threshold_backward", lower_threshold_backward},
    {"elu", lower_elu}, {"celu", lower_celu}, {"round", lower_round},
    {"addcmul", lower_addc}, {"addcdiv", lower_addc}, {"prims::fma", lower_fma}, {"lerp", lower_lerp},
    {"remainder", lower_remainder}, {"fmod", lower_remainder}, {"floor_divide", lower_floor_divide},
    {"logit", lower_logit}, {"nan_to_num", lower_nan_to_num},
    {"sgn", lower_row<Op::sign>}, {"__lshift__", lower_row<Op::bitwise_left_shift>}, {"__rshift__", lower_row<Op::bitwise_right_shift>},
    // losses
    {"mse_loss", lower_mse_loss}, {"smooth_l1_loss", lower_smooth_l1_loss}, {"huber_loss", lower_huber_loss},
    {"binary_cross_entropy_with_logits", lower_bce_with_logits}, {"soft_margin_loss", lower_soft_margin_loss},
    {"nll_loss", lower_nll_loss}, {"nll_loss_nd", lower_nll_loss}, {"nll_loss2d", lower_nll_loss}, {"nll_loss_forward", lower_nll_loss},
    {"nll_loss2d_forward", lower_nll_loss}, {"nll_loss_backward", lower_nll_loss_backward}, {"nll_loss2d_backward", lower_nll_loss_backward},
    {"cross_entropy_loss", lower_cross_entropy},
    // copies and casts
    {"clone", lower_clone}, {"contiguous", lower_contiguous}, {"to", lower_to}, {"_to_copy", lower_to}, {"lift_fresh_copy", lower_clone}, {"type_as", lower_to},
    {"copy", lower_copy}, {"fill", lower_fill}, {"zero", lower_fill},
    // views
    {"view", lower_view}, {"_unsafe_view", lower_view}, {"reshape", lower_reshape}, {"view_as", lower_view_as}, {"reshape_as", lower_reshape_as},
    {"flatten", lower_flatten}, {"unflatten", lower_unflatten},
    {"permute", lower_permute}, {"transpose", lower_transpose}, {"t", lower_t}, {"numpy_T", lower_t}, {"movedim", lower_movedim},
    {"expand", lower_expand}, {"expand_as", lower_expand_as}, {"unsqueeze", lower_unsqueeze}, {"squeeze", lower_squeeze},
    {"slice", lower_slice}, {"select", lower_select}, {"narrow", lower_narrow}, {"split", lower_split}, {"split_with_sizes", lower_split},
    {"chunk", lower_chunk}, {"unsafe_split", lower_split}, {"unsafe_split_with_sizes", lower_split}, {"unsafe_chunk", lower_chunk},
    {"unbind", lower_unbind}, {"detach", lower_detach}, {"alias", lower_alias}, {"as_strided", lower_as_strided}, {"as_strided_scatter", lower_as_strided_scatter},
    {"diagonal", lower_diagonal}, {"slice_backward", lower_slice_backward}, {"select_backward", lower_select_backward},
    // assertions about sizes
    {"_assert_scalar", lower_assert},
    // reductions
    {"mean", lower_mean}, {"max", lower_max}, {"min", lower_max},
    {"var", lower_var}, {"std", lower_var}, {"var_mean", lower_var_mean}, {"std_mean", lower_var_mean},
    {"linalg_vector_norm", lower_norm}, {"norm", lower_norm}, {"logsumexp", lower_logsumexp},
    // composites
    {"softmax", lower_softmax}, {"_softmax", lower_softmax}, {"log_softmax", lower_softmax}, {"_log_softmax", lower_softmax},
    {"_safe_softmax", lower_safe_softmax}, {"_softmax_backward_data", lower_softmax_backward}, {"_log_softmax_backward_data", lower_softmax_backward},
    {"layer_norm", lower_layer_norm}, {"native_layer_norm", lower_native_layer_norm}, {"rms_norm", lower_rms_norm},
    {"group_norm", lower_group_norm}, {"batch_norm", lower_batch_norm},
    {"_native_batch_norm_legit_no_training", lower_native_batch_norm},
    {"tril", lower_tril}, {"triu", lower_tril}, {"glu", lower_glu}, {"dropout", lower_dropout}, {"feature_dropout", lower_dropout},
    {"alpha_dropout", lower_dropout}, {"feature_alpha_dropout", lower_dropout},
    // creation
    {"full", lower_full}, {"zeros", lower_full}, {"ones", lower_full}, {"full_like", lower_full}, {"zeros_like", lower_full},
    {"ones_like", lower_full}, {"new_full", lower_full}, {"new_zeros", lower_full}, {"new_ones", lower_full}, {"scalar_tensor", lower_full},
    {"arange", lower_arange},
    // indexing and combining
    {"embedding", lower_embedding}, {"index_select", lower_index_select}, {"gather", lower_gather}, {"index", lower_index},
    {"cat", lower_cat}, {"concat", lower_cat}, {"concatenate", lower_cat}, {"stack", lower_stack},
    {"repeat", lower_repeat}, {"repeat_interleave", lower_repeat_interleave}, {"roll", lower_roll}, {"flip", lower_flip},
    {"constant_pad_nd", lower_pad}, {"pad", lower_pad},
    // contractions
    {"linear", lower_linear}, {"matmul", lower_contract}, {"mm", lower_contract}, {"bmm", lower_contract}, {"addmm", lower_contract},
    {"baddbmm", lower_contract}, {"scaled_dot_product_attention", lower_attention},
};

// Composites that are recorded as one call: decomposed they read sizes, touch memory, or are slower than one call.
constexpr std::string_view kWhole[] = {
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d", "upsample_bilinear2d",
    "upsample_bicubic2d", "upsample_trilinear3d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
    "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "stft",
    "istft", "one_hot", "pad_sequence", "max_pool1d", "max_pool2d", "max_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
    "adaptive_max_pool1d", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "_convolution", "instance_norm", "cdist", "ctc_loss", "multi_head_attention_forward", "index_add", "batch_norm",
    "_batch_norm_impl_index", "alpha_dropout", "feature_alpha_dropout", "embedding_bag", "bincount", "histogramdd",
    "nanquantile", "nonzero_numpy", "unfold_dim", "pixel_shuffle", "im2col", "pdist", "nll_loss_nd", "cross_entropy_loss",
    "repeat", "tile", "rms_norm", "group_norm", "argsort", "combinations", "kron", "chain_matmul", "linalg_multi_dot",
    "_fused_rms_norm", "block_diag", "bilinear", "scaled_dot_product_attention", "diag", "diagflat", "vander", "nuclear_norm",
    "fill_diagonal", "cov", "corrcoef", "take_along_dim", "tensordot", "inner", "repeat_interleave",
};

ForkMutex learned_mutex;
std::set<std::string>& learned() {
  static std::set<std::string> names;
  return names;
}

template <size_t... I>
constexpr auto row_functions(std::index_sequence<I...>) {
  return std::array<Lowering, sizeof...(I)>{&lower_row<static_cast<Op>(I)>...};
}

std::unordered_map<std::string_view, Lowering> build_table() {
  std::unordered_map<std::string_view, Lowering> table;
  static constexpr auto rows = row_functions(std::make_index_sequence<static_cast<size_t>(Op::call) + 1>());
  for (int i = 0; i < op_count(); ++i) {
    const OpInfo& row = info(static_cast<Op>(i));
    const bool whole = row.kind == OpKind::pointwise || row.kind == OpKind::reduce;
    if (whole && !row.aten.empty() && row.aten.find(':') == row.aten.npos) table.emplace(row.aten, rows[i]);
  }
  for (const Row& row : kRows) table[row.name] = row.lower;
  return table;
}

}  // namespace

Lowering find_lowering(std::string_view base) {
  static const auto table = build_table();
  const auto it = table.find(base);
  return it == table.end() ? nullptr : it->second;
}

bool keep_whole(std::string_view base) {
  static const std::unordered_set<std::string_view> whole(std::begin(kWhole), std::end(kWhole));
  if (whole.contains(base)) return true;
  const std::lock_guard lock(learned_mutex);
  return learned().contains(std::string(base));
}

void learn_keep_whole(const std::string& base) {
  const std::lock_guard lock(learned_mutex);
  learned().insert(base);
}

bool writes_silently(std::string_view base, std::vector<std::string_view>& arguments) {
  static constexpr std::string_view names[] = {"native_batch_norm", "batch_norm", "_batch_norm_impl_index", "instance_norm",
                                               "cudnn_batch_norm", "miopen_batch_norm"};
  for (const std::string_view name : names)
    if (base == name) {
      arguments = {"running_mean", "running_var"};
      return true;
    }
  return false;
}

}  // namespace escapement
