// The lowerings that lower_table.cpp lists, one per family of ops; see lower.h for what a lowering does.
#pragma once

#include <initializer_list>

#include "torch/record/lower.h"

namespace escapement {

struct SliceBounds {
  Dim start, end, length, step;  // normalised: 0 <= start <= end <= size
};
SliceBounds slice_bounds(OpCall& call, Dim size);                      // of the arguments start, end, step; guarded
Dim normal_index(OpCall& call, std::string_view name, Dim size);       // a negative one counts from the end; guarded

// Where eager makes a view of the argument at some sizes and a copy at others, and the host may notice (Tape::host_looks), or an earlier
// recording found that it is seen (choices.h): what was decided is guarded.
inline constexpr const char* kSharing = "a view or a copy";
bool guard_one(OpCall& call, Dim size);                  // is it 1?
bool guard_elements(OpCall& call, ValueId v);            // has the argument none?
void guard_layout(OpCall& call, ValueId v);              // as it was seen
bool decide_copy(OpCall& call, ValueId v, Dim copies);   // does eager copy `v`? As it did now
// That eager copied, of a trace that copies at all sizes. Throws InternalError if `copies` says otherwise than eager.
void note_choice(OpCall& call, Choice choice);

ValueId reshape_to(OpCall& call, ValueId v, std::vector<Dim> sizes);   // a view where the layout allows it
ValueId contiguous_copy(OpCall& call, ValueId v);
bool compose_elu(OpCall& call);   // of other rows (lower_activation.cpp)
// A library's result may be laid out as it likes: then ATen decides at run time what follows from that.
bool layout_is_open(OpCall& call, const std::vector<ValueId>& values);
Number real_number(double value);
Number integer_number(int64_t value);
// The row of these arguments, which may be numbers, in the dtype that torch promotes them to; and that dtype.
bool lower_named(OpCall& call, Op op, std::initializer_list<std::string_view> operands, Attrs attrs = {});
DType common_type(OpCall& call, std::initializer_list<std::string_view> operands);

bool lower_reduction(OpCall& call, Op op);   // by the row of reduce.def

bool lower_add(OpCall& call);
bool lower_addc(OpCall& call);
bool lower_fma(OpCall& call);
bool lower_alias(OpCall& call);
bool lower_detach(OpCall& call);
bool lower_arange(OpCall& call);
bool lower_as_strided(OpCall& call);
bool lower_as_strided_scatter(OpCall& call);
bool lower_assert(OpCall& call);
bool lower_attention(OpCall& call);
bool lower_batch_norm(OpCall& call);
bool lower_cat(OpCall& call);
bool lower_celu(OpCall& call);
bool lower_chunk(OpCall& call);
bool lower_clamp(OpCall& call);
bool lower_clamp_side(OpCall& call);
bool lower_clone(OpCall& call);
bool lower_contiguous(OpCall& call);
bool lower_contract(OpCall& call);
bool lower_copy(OpCall& call);
bool lower_diagonal(OpCall& call);
bool lower_div(OpCall& call);
bool lower_dropout(OpCall& call);
bool lower_elu(OpCall& call);
bool lower_embedding(OpCall& call);
bool lower_expand(OpCall& call);
bool lower_expand_as(OpCall& call);
bool lower_fill(OpCall& call);
bool lower_flatten(OpCall& call);
bool lower_full(OpCall& call);
bool lower_gather(OpCall& call);
bool lower_gelu(OpCall& call);
bool lower_gelu_backward(OpCall& call);
bool lower_glu(OpCall& call);
bool lower_group_norm(OpCall& call);
bool lower_index(OpCall& call);
bool lower_index_select(OpCall& call);
bool lower_layer_norm(OpCall& call);
bool lower_lerp(OpCall& call);
bool lower_linear(OpCall& call);
bool lower_logsumexp(OpCall& call);
bool lower_cross_entropy(OpCall& call);
bool lower_nll_loss(OpCall& call);
bool lower_nll_loss_backward(OpCall& call);
bool lower_flip(OpCall& call);
bool lower_repeat(OpCall& call);
bool lower_repeat_interleave(OpCall& call);
bool lower_roll(OpCall& call);
bool lower_masked_fill(OpCall& call);
bool lower_max(OpCall& call);
bool lower_mean(OpCall& call);
bool lower_movedim(OpCall& call);
bool lower_narrow(OpCall& call);
bool lower_native_batch_norm(OpCall& call);
bool lower_native_layer_norm(OpCall& call);
bool lower_norm(OpCall& call);
bool lower_pad(OpCall& call);
bool lower_permute(OpCall& call);
bool lower_pow(OpCall& call);
bool lower_log_sigmoid(OpCall& call);
bool lower_reshape(OpCall& call);
bool lower_reshape_as(OpCall& call);
bool lower_rms_norm(OpCall& call);
bool lower_round(OpCall& call);
bool lower_rsub(OpCall& call);
bool lower_select(OpCall& call);
bool lower_select_backward(OpCall& call);
bool lower_slice(OpCall& call);
bool lower_slice_backward(OpCall& call);
bool lower_safe_softmax(OpCall& call);
bool lower_softmax(OpCall& call);
bool lower_softmax_backward(OpCall& call);
bool lower_split(OpCall& call);
bool lower_squeeze(OpCall& call);
bool lower_stack(OpCall& call);
bool lower_t(OpCall& call);
bool lower_threshold_backward(OpCall& call);
bool lower_to(OpCall& call);
bool lower_transpose(OpCall& call);
bool lower_tril(OpCall& call);
bool lower_unbind(OpCall& call);
bool lower_unflatten(OpCall& call);
bool lower_unsqueeze(OpCall& call);
bool lower_var(OpCall& call);
bool lower_var_mean(OpCall& call);
bool lower_view(OpCall& call);
bool lower_view_as(OpCall& call);
bool lower_where(OpCall& call);
bool lower_bce_with_logits(OpCall& call);
bool lower_floor_divide(OpCall& call);
bool lower_huber_loss(OpCall& call);
bool lower_logit(OpCall& call);
bool lower_mse_loss(OpCall& call);
bool lower_nan_to_num(OpCall& call);
bool lower_remainder(OpCall& call);
bool lower_smooth_l1_loss(OpCall& call);
bool lower_soft_margin_loss(OpCall& call);

}  // namespace escapement
