// Opens a trace in the Perfetto UI, in a browser without a window, and takes its picture:
//   node viewer.mjs UI_FOLDER TRACE PICTURE.png FROM_NS TO_NS [X,Y]
// The stretch between two times (CLOCK_MONOTONIC, ns) is shown, and what is at a place of the picture is clicked at, so
// that the viewer tells about it. Nothing leaves this machine: viewer and trace are served from here, to a browser that
// is given no other address. scripts/viewer.sh fetches what it needs.

import { spawn } from "node:child_process";
import { createReadStream, mkdtempSync, statSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";

const [ui, trace, picture, from, to, place] = process.argv.slice(2);
const [width, height] = [1400, 800];
// What the picture has, from the top: cores, the lane's stages and its state, and why. All else is closed.
const COMMANDS = [
  ...["^CPU [0-9]+ Scheduling", "^lane ", "^why"].map((name) => ["dev.perfetto.PinTracksByRegex", name]),
  ["dev.perfetto.CollapseAllGroups"],
];
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
    width,
    height,
    deviceScaleFactor: 1,
    mobile: false,
  });
  const shown = { url: `${origin}/trace.gz`, hideSidebar: "true", visStart: from, visEnd: to };
  await page("Page.navigate", { url: `${origin}/#!/?${new URLSearchParams(shown)}` });
  // While it reads the trace, and makes the tracks, it says so in place of the search.
  const busy = "document.querySelector('[class*=message-mode]')";
  await until("tracks", `document.querySelectorAll('[class*=track]').length > 9 && !${busy}`);
  for (const command of COMMANDS) {
    await run(`window.app.commands.runCommand(...${JSON.stringify(command)})`);
  }
  // What is drawn comes by and by.
  await pause(5000);
  if (place) {
    const [x, y] = place.split(",").map(Number);
    for (const type of ["mousePressed", "mouseReleased"]) {
      await page("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 });
    }
    await pause(3000);
  }
  const { data } = await page("Page.captureScreenshot", { format: "png" });
  writeFileSync(picture, Buffer.from(data, "base64"));
} catch (error) {
  failed = error;
} finally {
  browser.kill();
  server.close();
  server.closeAllConnections();
  await new Promise((done) => browser.once("exit", done));
  // Its helpers may still write there for a moment, and a folder that is left behind is no reason to fail.
  await rm(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }).catch(() => {});
}
if (failed) {
  console.error(failed.message);
  process.exit(1);
}
