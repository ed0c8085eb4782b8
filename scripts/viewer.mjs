// Opens a trace in the Perfetto UI, in a browser without a window, and takes its picture: docs/images/trace.png.
//   node viewer.mjs UI_FOLDER TRACE PICTURE.png FROM_NS TO_NS [WIDTH HEIGHT [SCALE]]
// UI_FOLDER is the viewer as the wheel that scripts/perfetto.sh fetches has it. Nothing leaves this machine: the
// viewer and the trace are served from here, and the browser has no other address. scripts/viewer.sh does all of it.

import { spawn } from "node:child_process";
import { createReadStream, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";

const [ui, trace, picture, from, to, width = "1600", height = "1000", scale = "1"] = process.argv.slice(2);
const TYPES = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".wasm": "application/wasm",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".woff2": "font/woff2",
};

const server = createServer((request, response) => {
  const path = decodeURIComponent(new URL(request.url, "http://host").pathname);
  const file = path === "/trace.gz" ? trace : join(ui, normalize(path === "/" ? "/index.html" : path));
  try {
    if (!statSync(file).isFile()) throw new Error("no file");
  } catch {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, { "Content-Type": TYPES[extname(file)] ?? "application/octet-stream" });
  createReadStream(file).pipe(response);
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const origin = `http://127.0.0.1:${server.address().port}`;

const profile = mkdtempSync(join(tmpdir(), "viewer-"));
const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"];
const apart = ["--disable-background-networking", "--disable-component-update", "--no-first-run"];
const browser = spawn(
  process.env.CHROMIUM ?? "chromium",
  [...flags, ...apart, `--user-data-dir=${profile}`, `--window-size=${width},${height}`, "about:blank"],
  { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] },
);

// Chromium's protocol over two pipes: messages end with a byte of nought.
let heard = "";
let last = 0;
const waiting = new Map();
browser.stdio[4].on("data", (bytes) => {
  heard += bytes;
  for (let end; (end = heard.indexOf("\0")) >= 0; heard = heard.slice(end + 1)) {
    const message = JSON.parse(heard.slice(0, end));
    waiting.get(message.id)?.(message);
    waiting.delete(message.id);
  }
});
function ask(method, params = {}, sessionId = undefined) {
  const id = ++last;
  browser.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
  return new Promise((done, failed) =>
    waiting.set(id, ({ result, error }) => (error ? failed(new Error(`${method}: ${error.message}`)) : done(result))),
  );
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const { targetInfos } = await ask("Target.getTargets");
const { targetId } = targetInfos.find((target) => target.type === "page");
const { sessionId } = await ask("Target.attachToTarget", { targetId, flatten: true });
const page = (method, params) => ask(method, params, sessionId);
async function run(expression) {
  const { result, exceptionDetails } = await page("Runtime.evaluate", {
    expression,
    awaitPromise: true,
    returnByValue: true,
  });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
}
async function until(what, expression) {
  for (let i = 0; i < 600; i++) {
    if (await run(expression)) return;
    await pause(200);
  }
  throw new Error(`no ${what}: ${await run("document.body.innerText")}`);
}

let failed;
try {
  await page("Emulation.setDeviceMetricsOverride", {
    width: Number(width),
    height: Number(height),
    deviceScaleFactor: Number(scale),
    mobile: false,
  });
  // All groups of tracks are open, and only a stretch is shown.
  const commands = JSON.stringify([{ id: "dev.perfetto.ExpandTracksByRegex", args: [".*"] }]);
  const query = new URLSearchParams({ url: `${origin}/trace.gz`, hideSidebar: "true", startupCommands: commands });
  if (from && to) {
    query.set("visStart", from);
    query.set("visEnd", to);
  }
  await page("Page.navigate", { url: `${origin}/#!/?${query}` });
  await until("trace", "Boolean(globalThis.app?.trace ?? globalThis.ctx) && /burst/.test(document.title + 'burst')");
  for (const script of (process.env.SCRIPTS ?? "").split("\n").filter(Boolean)) console.error(await run(script));
  await pause(Number(process.env.SETTLE_MS ?? 8000));
  const { data } = await page("Page.captureScreenshot", { format: "png" });
  writeFileSync(picture, Buffer.from(data, "base64"));
} catch (error) {
  failed = error;
} finally {
  browser.kill();
  server.close();
  server.closeAllConnections();
  await new Promise((done) => browser.once("exit", done));
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
}
if (failed) {
  console.error(failed.message);
  process.exit(1);
}
