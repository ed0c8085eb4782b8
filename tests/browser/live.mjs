// Opens the live page in a browser without a window, looks at it at three sizes, waits for the end of the run, and
// prints what it saw as JSON:
//   node live.mjs URL FOLDER_FOR_PICTURES
// Says "live" on standard error when the page has filled; whoever started it then ends the run.

import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [url, pictures] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), "mpps-live-"));
const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"];
const apart = ["--disable-background-networking", "--disable-component-update", "--no-first-run", "--disable-sync"];
const browser = spawn(
  process.env.CHROMIUM ?? "chromium",
  [...flags, ...apart, `--user-data-dir=${profile}`, "about:blank"],
  { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] },
);

// Chromium's protocol over two pipes: messages end with a byte of nought.
let heard = "";
let last = 0;
const waiting = new Map();
const errors = [];
browser.stdio[4].on("data", (bytes) => {
  heard += bytes;
  for (let end; (end = heard.indexOf("\0")) >= 0; heard = heard.slice(end + 1)) {
    const message = JSON.parse(heard.slice(0, end));
    const { method, params } = message;
    if (method === "Runtime.exceptionThrown") {
      errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    }
    if (method === "Log.entryAdded" && params.entry.level === "error") {
      errors.push(`${params.entry.text} ${params.entry.url ?? ""}`);
    }
    if (method === "Runtime.consoleAPICalled" && ["error", "warning"].includes(params.type)) {
      errors.push(JSON.stringify(params.args));
    }
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

let failed;
try {
  const { targetInfos } = await ask("Target.getTargets");
  const { targetId } = targetInfos.find((target) => target.type === "page");
  const { sessionId } = await ask("Target.attachToTarget", { targetId, flatten: true });
  const page = (method, params) => ask(method, params, sessionId);
  const run = async (expression) => {
    const asked = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await page("Runtime.evaluate", asked);
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  };
  const until = async (what, expression) => {
    for (let i = 0; i < 800; i++) {
      if (await run(expression)) return;
      await pause(200);
    }
    throw new Error(`no ${what}: ${await run("document.body.innerText")}; ${errors.join("; ")}`);
  };
  const text = (id) => run(`document.getElementById(${JSON.stringify(id)}).textContent`);
  const picture = async (name, width, height, scheme, motion) => {
    await page("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: width < 500 });
    await page("Emulation.setEmulatedMedia", {
      features: [
        { name: "prefers-color-scheme", value: scheme },
        { name: "prefers-reduced-motion", value: motion },
      ],
    });
    await pause(1500);
    const { data } = await page("Page.captureScreenshot", { format: "png", captureBeyondViewport: true });
    writeFileSync(join(pictures, `${name}.png`), Buffer.from(data, "base64"));
    return run("document.documentElement.scrollWidth - document.documentElement.clientWidth");
  };

  await page("Runtime.enable");
  await page("Log.enable");
  await page("Page.enable");
  await page("Page.addScriptToEvaluateOnNewDocument", {
    source:
      "window.violations = []; addEventListener('securitypolicyviolation', (e) => " +
      "violations.push(e.violatedDirective + ' ' + e.blockedURI));",
  });
  await page("Page.navigate", { url });
  await until("rows", "document.querySelectorAll('#rows tbody tr').length > 5");
  await until("lanes", "document.querySelectorAll('#lanes tbody tr').length > 0");
  await until("packets", "/^[1-9]/.test(document.getElementById('sent').textContent)");
  const loss = "document.getElementById('loss')";
  await until("a loss", `${loss}.parentNode.hidden || /%/.test(${loss}.textContent)`);
  await until("charts", "[...document.querySelectorAll('canvas')].filter((c) => c.width > 200).length >= 3");
  const over = [
    await picture("wide", 1280, 1400, "light", "no-preference"),
    await picture("dark", 1280, 1400, "dark", "no-preference"),
    await picture("narrow", 390, 2200, "light", "reduce"),
  ];
  const seen = {
    title: await text("title"),
    verdict: await text("verdict-head"),
    intended: await text("intended"),
    search: await text("trial"),
  };
  console.error("live");
  await until("end", "!document.getElementById('result').hidden");
  over.push(await picture("ended", 1280, 1900, "light", "no-preference"));
  const ended = { phase: await text("phase"), verdict: await text("verdict-head"), result: await text("result") };
  console.log(JSON.stringify({ seen, ended, over, errors, violations: await run("window.violations") }));
} catch (error) {
  failed = error;
} finally {
  browser.kill();
  await new Promise((done) => browser.once("exit", done));
  // Its helpers may still write there for a moment, and a folder that is left behind is no reason to fail.
  await rm(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }).catch(() => {});
}
if (failed) {
  console.error(failed.message);
  process.exit(1);
}
