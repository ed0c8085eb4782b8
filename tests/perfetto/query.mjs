// Imports a trace with Perfetto's own trace processor and answers SQL, without a network or a browser:
//   node query.mjs trace_processor.wasm TRACE 'select …' …
// prints a line of JSON for each query, a list of rows. TRACE may be gzipped.
//
// The module was made by emscripten for the Perfetto UI; what it wants of its surroundings here is a clock, memory that
// grows and files that are not there. Requests and answers are messages of protos/perfetto/trace_processor.

import { readFileSync, writeSync } from "node:fs";

const [wasm, trace, ...queries] = process.argv.slice(2);
const NOT_THERE = -44;
const out = { 1: "", 2: "" };
let memory;
const view = () => new DataView(memory.buffer);
const clock = (ns) => BigInt(Math.round(performance.now() * 1e6)) + ns;

const surroundings = {
  emscripten_get_now: () => performance.now(),
  emscripten_date_now: () => Date.now(),
  emscripten_get_heap_max: () => 2 ** 32 - 65536,
  emscripten_resize_heap: (bytes) => {
    try {
      memory.grow(Math.max(0, Math.ceil(((bytes >>> 0) - memory.buffer.byteLength) / 65536)));
      return 1;
    } catch {
      return 0;
    }
  },
  clock_time_get: (_id, _precision, at) => (view().setBigUint64(at >>> 0, clock(0n), true), 0),
  environ_sizes_get: (count, size) => (view().setUint32(count, 0, true), view().setUint32(size, 0, true), 0),
  environ_get: () => 0,
  fd_write: (fd, vectors, count, written) => {
    let total = 0;
    for (let i = 0; i < count; i++) {
      const at = view().getUint32((vectors >>> 0) + 8 * i, true);
      const length = view().getUint32((vectors >>> 0) + 8 * i + 4, true);
      out[fd] += Buffer.from(memory.buffer, at, length).toString();
      total += length;
    }
    view().setUint32(written, total, true);
    return 0;
  },
  fd_close: () => 0,
  fd_fdstat_get: () => 0,
  emscripten_err: () => {},
  __assert_fail: () => fail("an assertion of the trace processor failed"),
  _abort_js: () => fail("the trace processor gave up"),
};

function fail(why) {
  writeSync(2, `${why}\n${out[2]}`);
  process.exit(1);
}

const module = new WebAssembly.Module(readFileSync(wasm));
const imports = {};
for (const { module: from, name } of WebAssembly.Module.imports(module)) {
  (imports[from] ??= {})[name] = surroundings[name] ?? (() => NOT_THERE);
}
const { exports } = new WebAssembly.Instance(module, imports);
memory = exports.memory;
exports.emscripten_stack_init();
exports.__wasm_call_ctors();

// A function of the table has to be WebAssembly's: a module of 35 bytes that only hands on (i32, i32) -> ().
const HAND_ON = [
  0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, 0x01, 0x06, 0x01, 0x60, 0x02, 0x7f, 0x7f, 0x00, 0x02, 0x07, 0x01,
  0x01, 0x65, 0x01, 0x66, 0x00, 0x00, 0x07, 0x05, 0x01, 0x01, 0x66, 0x00, 0x00,
];
const answers = [];
const f = (at, length) => answers.push(Buffer.from(memory.buffer.slice(at >>> 0, (at >>> 0) + length)));
const handOn = new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array(HAND_ON)), { e: { f } });
const table = exports.__indirect_function_table;
const place = table.grow(1);
table.set(place, handOn.exports.f);
const ROOM = 4 << 20;
const request_at = exports.trace_processor_rpc_init(place, ROOM) >>> 0;

// Protocol buffers, as far as needed.
function varint(value) {
  const bytes = [];
  for (let v = BigInt(value); ; v >>= 7n) {
    if (v < 0x80n) return Buffer.from([...bytes, Number(v)]);
    bytes.push(Number(v & 0x7fn) | 0x80);
  }
}
const uint = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const data = (field, value) => Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);

function* fields(bytes) {
  for (let at = 0; at < bytes.length; ) {
    let key, value;
    [key, at] = number(bytes, at);
    const kind = Number(key & 7n);
    if (kind === 0) [value, at] = number(bytes, at);
    else if (kind === 1) (value = bytes.subarray(at, at + 8)), (at += 8);
    else if (kind === 2) {
      let length;
      [length, at] = number(bytes, at);
      value = bytes.subarray(at, at + Number(length));
      at += Number(length);
    } else throw new Error(`a field of wire type ${kind}`);
    yield [Number(key >> 3n), value];
  }
}
function number(bytes, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = bytes[at++];
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return [value, at];
  }
}

let sequence = 0;
function ask(method, args = Buffer.alloc(0)) {
  answers.length = 0;
  const message = data(1, Buffer.concat([uint(1, sequence++), uint(2, method), args]));
  Buffer.from(memory.buffer).set(message, request_at);
  exports.trace_processor_on_rpc_request(message.length);
  const replies = [];
  for (const [, reply] of fields(Buffer.concat(answers))) {
    for (const [field, value] of fields(reply)) {
      if (field === 5) fail(`the trace processor says: ${value}`);
      if (field > 200) replies.push([field, Buffer.from(value)]);
    }
  }
  return replies;
}

const bytes = readFileSync(trace);
for (let at = 0; at < bytes.length; at += ROOM / 2) {
  for (const [, result] of ask(1, data(101, bytes.subarray(at, at + ROOM / 2)))) {
    for (const [field, value] of fields(result)) if (field === 2) fail(`import: ${value}`);
  }
}
ask(2);

for (const query of queries) {
  const columns = [];
  const rows = [];
  let cells = [];
  for (const [, result] of ask(3, data(103, data(1, Buffer.from(query))))) {
    for (const [field, value] of fields(result)) {
      if (field === 1) columns.push(value.toString());
      if (field === 2 && value.length) fail(`${query}: ${value}`);
      if (field === 3) cells = cells.concat(batch(value));
    }
  }
  for (let i = 0; i < cells.length; i += columns.length) {
    rows.push(Object.fromEntries(columns.map((name, j) => [name, cells[i + j]])));
  }
  console.log(JSON.stringify(rows));
}

function batch(bytes) {
  let kinds = [];
  const [ints, floats, strings] = [[], [], []];
  for (const [field, value] of fields(bytes)) {
    if (field === 1) kinds = [...value];
    if (field === 2) for (let at = 0, n; at < value.length; ) ([n, at] = number(value, at)), ints.push(Number(BigInt.asIntN(64, n)));
    if (field === 3) for (let at = 0; at < value.length; at += 8) floats.push(value.readDoubleLE(at));
    if (field === 5) strings.push(...value.toString().split("\0"));
  }
  return kinds.map((kind) => {
    if (kind === 2) return ints.shift();
    if (kind === 3) return floats.shift();
    if (kind === 4) return strings.shift();
    return null;
  });
}
