// See known_masks.h.
#include "jit/llvm/known_masks.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>

#include <bit>
#include <numeric>
#include <optional>
#include <vector>

namespace escapement {

namespace {

// Which lanes are stored; nothing where that is not known.
std::optional<std::vector<bool>> known_lanes(const llvm::Value* mask) {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(mask);
  if (constant == nullptr) return {};
  std::vector<bool> lanes;
  for (unsigned i = 0; i < llvm::cast<llvm::FixedVectorType>(mask->getType())->getNumElements(); ++i) {
    const auto* lane = llvm::dyn_cast_or_null<llvm::ConstantInt>(constant->getAggregateElement(i));
    if (lane == nullptr) return {};
    lanes.push_back(lane->isOne());
  }
  return lanes;
}

// Lanes [begin, begin + count) of `value`, from its element's address on.
void store_piece(llvm::IRBuilder<>& b, llvm::Value* value, llvm::Value* address, unsigned begin, unsigned count) {
  llvm::Type* element = llvm::cast<llvm::FixedVectorType>(value->getType())->getElementType();
  const auto bytes = element->getPrimitiveSizeInBits() / 8;
  std::vector<int> lanes(count);
  std::iota(lanes.begin(), lanes.end(), static_cast<int>(begin));
  llvm::Value* piece = count == 1 ? b.CreateExtractElement(value, uint64_t{begin}) : b.CreateShuffleVector(value, lanes);
  b.CreateAlignedStore(piece, b.CreateConstGEP1_64(element, address, begin), llvm::Align(bytes));
}

void store_lanes(llvm::IntrinsicInst& store, const std::vector<bool>& lanes) {
  llvm::IRBuilder<> b(&store);
  const auto end = static_cast<unsigned>(lanes.size());
  for (unsigned begin = 0; begin < end;) {
    unsigned count = 0;
    while (begin + count < end && lanes[begin + count]) ++count;
    for (const unsigned stop = begin + count; begin < stop;) {
      const unsigned piece = std::bit_floor(stop - begin);
      store_piece(b, store.getArgOperand(0), store.getArgOperand(1), begin, piece);
      begin += piece;
    }
    ++begin;
  }
  store.eraseFromParent();
}

}  // namespace

void store_known_lanes(llvm::Module& module) {
  for (llvm::Function& function : module)
    for (llvm::BasicBlock& block : function)
      for (llvm::Instruction& instruction : llvm::make_early_inc_range(block)) {
        auto* store = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
        if (store == nullptr || store->getIntrinsicID() != llvm::Intrinsic::masked_store) continue;
        if (const auto lanes = known_lanes(store->getArgOperand(store->arg_size() - 1))) store_lanes(*store, *lanes);
      }
}

}  // namespace escapement
