// Maps on a device.
//   thread   each thread takes points of all axes, the vector axis among them, and finds their indices by division
//   tile     the points without the vector axis, times pieces of the vector axis: a block's threads stand side by side on a piece, so one division
//            serves the whole piece, and none is made where there is only one point. Fast maps take up to 16 bytes at a time where every parameter's
//            elements lie at multiples of that: tested for each piece, the same for all threads of the block.
#include "jit/llvm/device/kernel.h"

namespace escapement {

namespace {

struct MapEmitter {
  DeviceKernel& device;
  KernelEmitter& kernel = device.kernel;
  Ir& ir = device.ir;
  unsigned vector = kernel.axes() - 1;                                       // the vector axis
  unsigned together = device.variant.fast ? device_vector(device.nest) : 1;  // elements of a thread in a piece of a tile

  Value* points() { return device.product(device.axes(false)); }
  Access access_of(unsigned param, Value* base, bool aligned);
  Point point_at(Odometer& outer, bool aligned);
  std::vector<Value*> bases(Odometer& outer);
  void emit_points();
  void emit_tiles();
  void emit_piece(Odometer& outer, Value* begin);
  void run(const Point& point, const Chunk& chunk);
};

void MapEmitter::run(const Point& point, const Chunk& chunk) {
  for (const Stage& stage : device.nest.stages) {
    StageBody body(kernel, stage, chunk.lanes);
    body.enter(point);
    body.begin(chunk);
    body.store();
  }
}

// --- thread

void MapEmitter::emit_points() {
  std::vector<unsigned> all = device.axes(false);
  all.push_back(vector);
  Odometer odometer(kernel, all);
  Value* first = ir.b.CreateAdd(ir.b.CreateMul(device.block(), device.threads()), device.thread());
  device.stride_loop("point", first, device.product(all), ir.b.CreateMul(device.blocks(), device.threads()), [&](Value* flat) {
    odometer.start(flat);
    Point point;
    for (unsigned p = 0; p < kernel.params(); ++p)
      point.params.push_back({Access::Kind::zero, ir.at(kernel.data(p), odometer.offset(p)), nullptr, nullptr});
    for (const unsigned a : all) point.axes.push_back({IndexSource::Kind::scalar, odometer.index(a)});
    run(point, full_chunk(ir.i64(0), 1));
  });
}

// --- tile

Access MapEmitter::access_of(unsigned param, Value* base, bool aligned) {
  if (!device.variant.fast) return {Access::Kind::strided, base, kernel.stride(param, vector), nullptr};
  const bool unit = device.nest.params[param].inner == InnerStride::unit;
  return {unit ? Access::Kind::unit : Access::Kind::zero, base, nullptr, nullptr, aligned};
}

Point MapEmitter::point_at(Odometer& outer, bool aligned) {
  Point point;
  for (unsigned p = 0; p < kernel.params(); ++p) point.params.push_back(access_of(p, ir.at(kernel.data(p), outer.offset(p)), aligned));
  for (const unsigned a : outer.axes()) point.axes.push_back({IndexSource::Kind::scalar, outer.index(a)});
  point.axes.push_back({IndexSource::Kind::lanes, nullptr});
  return point;
}

// Pieces begin at multiples of `together`, so it is enough to look where the vector axis begins.
std::vector<Value*> MapEmitter::bases(Odometer& outer) {
  std::vector<Value*> result;
  for (unsigned p = 0; p < kernel.params(); ++p) result.push_back(ir.at(kernel.data(p), outer.offset(p)));
  return result;
}

void MapEmitter::emit_piece(Odometer& outer, Value* begin) {
  Value *end = kernel.extent(vector), *piece = ir.b.CreateMul(device.threads(), ir.i64(together));
  Value* whole = ir.b.getFalse();
  if (together > 1) {
    whole = ir.b.CreateAnd(ir.b.CreateICmpSLE(ir.b.CreateAdd(begin, piece), end), all_aligned(device, bases(outer), together));
    ir.if_then(whole, [&] {
      run(point_at(outer, true), full_chunk(ir.b.CreateAdd(begin, ir.b.CreateMul(device.thread(), ir.i64(together))), together));
    });
  }
  ir.if_then(ir.b.CreateNot(whole), [&] {
    Value* stop = ir.min(ir.b.CreateAdd(begin, piece), end);
    device.stride_loop("element", ir.b.CreateAdd(begin, device.thread()), stop, device.threads(),
                       [&](Value* position) { run(point_at(outer, false), full_chunk(position, 1)); });
  });
}

void MapEmitter::emit_tiles() {
  Odometer outer(kernel, device.axes(false));
  Value *count = points(), *piece = ir.b.CreateMul(device.threads(), ir.i64(together));
  Value* pieces = device.quotient_up(kernel.extent(vector), piece);
  device.stride_loop("piece", device.block(), ir.b.CreateMul(count, pieces), device.blocks(), [&](Value* number) {
    Var point = ir.var(ir.i64(0), "point"), part = ir.var(number, "part");
    ir.if_then(ir.b.CreateICmpSGT(count, ir.i64(1)), [&] {
      Value* flat = ir.b.CreateUDiv(number, pieces);
      ir.set(point, flat);
      ir.set(part, ir.b.CreateSub(number, ir.b.CreateMul(flat, pieces)));
    });
    start_at(device, outer, ir.get(point), count);
    emit_piece(outer, ir.b.CreateMul(ir.get(part), piece));
  });
}

}  // namespace

void emit_device_map(DeviceKernel& device) {
  MapEmitter emitter{device};
  if (device.variant.team == Team::thread) emitter.emit_points();
  else emitter.emit_tiles();
}

}  // namespace escapement
