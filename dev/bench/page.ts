/** The page with many deployments: the time until it is shown, its cost, and how soon it shows changes. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import type { Browser, Page } from "playwright-core";
import { rendererPids, startChromium } from "./chromium.ts";
import { now } from "./clock.ts";
import { type Goal, type Measurement, megabytes, median, milliseconds, quantile, type Report } from "./measurement.ts";
import { specOf, upToDate } from "./project.ts";
import type { Stage } from "./stage.ts";
import type { Towline } from "./towline.ts";
import { cpuSeconds, ownBytes, startSampling } from "./usage.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const namespace = "bench-page";
const token = "a-token-for-the-page-of-the-bench";
const nameOf = (index: number) => `app-${String(index).padStart(4, "0")}`;

const goals = { interactiveMs: 1_000, gzipBytes: 50_000, pixelMs: 1_000, searchMs: 100, growthBytes: 20 * 1024 * 1024 };

export const page: Measurement = {
  name: "page",
  title: "The page",
  async run(stage) {
    const count = stage.quick ? 50 : 1_000;
    const forMs = stage.quick ? 5_000 : 20_000;
    await run(join(root, "node_modules/.bin/vite"), ["build", "--logLevel", "warn"], { cwd: root });
    const assets = sizesOf(join(root, "dist/ui"));
    await createDeployments(stage, count);
    const server = await stage.startTowline({ name: namespace, namespace, concurrency: 2, pageToken: token });
    const browser = await startChromium();
    stage.defer(() => browser.close());

    const loads = await times(stage.quick ? 3 : 7, () => loadOnce(browser, server, count));
    const { tab, close } = await openTab(browser, server, count);
    const search = await times(10, (index) => searchFor(tab, index % 2 === 0 ? nameOf(count - 1 - index) : ""));
    const filter = await times(10, (index) => press(tab, index % 2 === 0 ? "Failed" : "All"));
    const quietPixels = await times(15, async (index) => {
      await delay(1_000); // the server batches changes that follow at once
      return pixelOf(stage, tab, `calm ${index}`);
    });
    const before = await memoryOf(browser, tab);
    await close();

    const alone = await underChange(stage, server, count, forMs);
    const watched = await openTab(browser, server, count);
    const rushed = await underChange(stage, server, count, forMs);
    const pixels: number[] = [];
    const during = await underChange(stage, server, count, forMs, async (index) => {
      pixels.push(await pixelOf(stage, watched.tab, `busy ${index}`));
    });
    const searchBusy: number[] = [];
    await underChange(stage, server, count, forMs / 3, async (index) => {
      searchBusy.push(await searchFor(watched.tab, index % 2 === 0 ? nameOf(count - 1 - index) : ""));
    });
    const after = await memoryOf(browser, watched.tab);
    await watched.close();
    await server.stop();
    const rush = await measureRush(stage, browser, { count, forMs });

    const [interactive, pixelBusy] = [median(loads), median(pixels)];
    const row = (what: string, all: readonly number[]) => [
      what,
      milliseconds(median(all)),
      milliseconds(quantile(all, 0.9)),
      milliseconds(quantile(all, 1)),
    ];
    const load = (what: string, { rate, usage }: Changed) => [
      what,
      `${rate.toFixed(0)}/s`,
      usage.cores.toFixed(2),
      megabytes(usage.serverBytes),
    ];
    return {
      how:
        `${count} KluctlDeployments, a real server, and a real Chromium (headless) on the same machine. ` +
        "Their statuses are written to the API server as fast as it accepts them, up to twice a second for each; the server sends all changes to the page at most twice a second. " +
        "Because the API server accepts fewer changes than that, a separate process that only generates events also serves the page. " +
        "The time until a status is drawn in the browser counts from the moment at which it was sent to the API server.",
      tables: [
        {
          head: ["asset", "bytes", "gzip"],
          rows: assets.map(({ name, bytes, gzip }) => [name, String(bytes), String(gzip)]),
        },
        {
          head: ["time until", "median", "p90", "max"],
          rows: [
            row(`a tab without a cache shows ${count} deployments and accepts a search`, loads),
            row("a changed status is drawn while nothing else changes", quietPixels),
            row("a changed status is drawn while all others change", pixels),
            row(`a changed status is drawn while ${count} change twice a second`, rush.pixels),
            row("a search is drawn", search),
            row("a search is drawn while all change", searchBusy),
            row(`a search is drawn while ${count} change twice a second`, rush.search),
            row("a filter is drawn", filter),
          ],
        },
        {
          head: ["all statuses change", "changes", "cores of the server", "memory of the server"],
          rows: [
            load("no tab is open", alone),
            load("one tab is open", rushed),
            load("one tab is open, and measured", during),
          ],
        },
        {
          head: [`${count} deployments change twice a second`, "cores", "memory"],
          rows: [
            ["event generator, one tab", rush.one.cores.toFixed(2), megabytes(rush.one.serverBytes)],
            ["event generator, twenty tabs", rush.twenty.cores.toFixed(2), megabytes(rush.twenty.serverBytes)],
            ["the tab", rush.tab.cores.toFixed(2), megabytes(rush.tab.serverBytes)],
          ],
        },
        {
          head: ["memory of the tab", "JavaScript heap", "process"],
          rows: [
            ["just loaded", megabytes(before.heap), megabytes(before.process)],
            ["after the changes", megabytes(after.heap), megabytes(after.process)],
            [
              `${count} change twice a second, after ${rush.shortMs / 1_000} s`,
              megabytes(rush.early.heap),
              megabytes(rush.early.process),
            ],
            [
              `${count} change twice a second, after ${rush.longMs / 1_000} s`,
              megabytes(rush.late.heap),
              megabytes(rush.late.process),
            ],
          ],
        },
      ],
      goals: [
        goal(
          `the page shows ${count} deployments`,
          milliseconds(goals.interactiveMs),
          milliseconds(interactive),
          interactive < goals.interactiveMs,
        ),
        goal(
          "size of the page, gzip",
          `${goals.gzipBytes / 1_000} kB`,
          `${(sum(assets) / 1_000).toFixed(1)} kB`,
          sum(assets) < goals.gzipBytes,
        ),
        goal(
          "a changed status is drawn while all change, median",
          milliseconds(goals.pixelMs),
          milliseconds(pixelBusy),
          pixelBusy < goals.pixelMs,
        ),
        goal(
          `a search over ${count} is drawn, median`,
          milliseconds(goals.searchMs),
          milliseconds(median(search)),
          median(search) < goals.searchMs,
        ),
        goal(
          "growth of the tab's JavaScript heap while all change",
          megabytes(goals.growthBytes),
          megabytes(Math.max(0, rush.late.heap - rush.early.heap)),
          rush.late.heap - rush.early.heap < goals.growthBytes,
        ),
      ],
      memory: [],
    } satisfies Report;
  },
};

function goal(what: string, limit: string, measured: string, met: boolean): Goal {
  return { what, wanted: `< ${limit}`, measured, met };
}

interface Asset {
  readonly name: string;
  readonly bytes: number;
  readonly gzip: number;
}

const sum = (assets: readonly Asset[]) => assets.reduce((all, { gzip }) => all + gzip, 0);

function sizesOf(dir: string): readonly Asset[] {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.map(({ parentPath, name }) => {
    const contents = readFileSync(join(parentPath, name));
    const ending = name.slice(name.lastIndexOf(".") + 1);
    return { name: ending, bytes: contents.length, gzip: gzipSync(contents).length };
  });
}

async function createDeployments(stage: Stage, count: number): Promise<void> {
  const { url, first } = await stage.countedRepository(namespace);
  const { cluster } = stage;
  await cluster.createNamespace(namespace);
  await inParallel(20, count, async (index) => {
    const name = nameOf(index);
    await cluster.createDeployment(namespace, name, specOf({ url, namespace, name, interval: "1h" }));
    await cluster.setStatus(namespace, name, { ...upToDate(first), lastDriftDetectionResultMessage: "no drift" });
  });
}

interface Changed {
  /** Changes per second. */
  readonly rate: number;
  readonly usage: ReturnType<ReturnType<typeof startSampling>>;
}

/** Sends the page's own events with more changes than a cluster of this size could make. */
async function measureRush(stage: Stage, browser: Browser, { count, forMs }: { count: number; forMs: number }) {
  const program = fileURLToPath(new URL("./page-rush.ts", import.meta.url));
  const child = spawn(process.execPath, [program, String(count)], { stdio: ["ignore", "pipe", "inherit"] });
  stage.defer(() => child.kill());
  const [said] = (await once(child.stdout, "data")) as [Buffer];
  const pageUrl = `http://127.0.0.1:${said.toString().trim()}`;
  const { tab, close } = await openTab(browser, { pageUrl }, count);
  await delay(2_000);
  const early = await memoryOf(browser, tab);
  const [sampled, sampledTab] = [startSampling(child.pid ?? 0), startSampling(await processOf(browser, tab))];
  const pixels = await pixelsFor(tab, forMs);
  const [one, tabUsage] = [sampled(), sampledTab()];
  const search = await times(20, async (index) => {
    await delay(50 + (index % 10) * 50);
    return searchFor(tab, index % 2 === 0 ? nameOf(count - 1 - index) : "");
  });
  const late = await memoryOf(browser, tab);
  const others = Array.from({ length: 19 }, async () => {
    const { body } = await fetch(`${pageUrl}/api/events`);
    await body?.pipeTo(new WritableStream()).catch(() => undefined); // ends with the process
  });
  await delay(2_000);
  const sampledAgain = startSampling(child.pid ?? 0);
  await delay(forMs / 3);
  const twenty = sampledAgain();
  await close();
  child.kill();
  await Promise.all(others);
  return { pixels, search, one, twenty, tab: tabUsage, early, late, shortMs: 2_000, longMs: forMs };
}

/** The first row contains the time of its change; it is read in each frame. */
async function pixelsFor(tab: Page, forMs: number): Promise<readonly number[]> {
  return tab.evaluate<readonly number[]>(`(async (forMs) => {
    const all = [];
    const endsAt = Date.now() + forMs;
    const said = () => document.querySelector(".rows li .row > :nth-child(4)").textContent;
    for (let last = said(); Date.now() < endsAt; ) {
      await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
      const text = said();
      if (text !== last) all.push(Date.now() - Number(text));
      last = text;
    }
    return all;
  })(${forMs})`);
}

/** Keeps changing all deployments except the first, which `meanwhile` may change. */
async function underChange(
  { cluster }: Stage,
  server: Towline,
  count: number,
  forMs: number,
  meanwhile?: (index: number) => Promise<void>,
): Promise<Changed> {
  const endsAt = now() + forMs;
  let [changes, over] = [0, false];
  const sampled = startSampling(server.pid, 1_000);
  const looking = (async () => {
    for (let index = 0; meanwhile && !over; index++) {
      await delay(300 + (index % 7) * 100); // at varying moments of the half second in which the server batches changes
      await meanwhile(index);
    }
  })();
  for (let round = 0; now() < endsAt; round++) {
    const roundEndsAt = now() + 500;
    await inParallel(16, count - 1, async (index) => {
      if (now() >= endsAt) return;
      const message = `${round + 1} chg`;
      await cluster.setStatus(namespace, nameOf(index + 1), { lastDriftDetectionResultMessage: message });
      changes++;
    });
    await delay(Math.max(0, roundEndsAt - now()));
  }
  const usage = sampled();
  over = true;
  await looking;
  return { rate: (changes * 1_000) / forMs, usage };
}

/** Runs the work with at most `lanes` calls at a time. */
async function inParallel(lanes: number, count: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

async function times(count: number, measure: (index: number) => Promise<number>): Promise<number[]> {
  const all: number[] = [];
  for (let index = 0; index < count; index++) all.push(await measure(index));
  return all;
}

async function openTab(browser: Browser, { pageUrl }: Pick<Towline, "pageUrl">, count: number) {
  const context = await browser.newContext({
    viewport: { width: 1200, height: 800 },
    extraHTTPHeaders: { Authorization: `Bearer ${token}` },
  });
  const tab = await context.newPage();
  await tab.addInitScript(`(${noteShown})()`);
  await tab.goto(pageUrl);
  await tab.getByRole("button", { name: `All ${count}` }).waitFor();
  return { tab, close: () => context.close() };
}

/**
 * Milliseconds from the start of the navigation until rows are drawn. They can be searched by then, because the same
 * script drew them.
 */
async function loadOnce(browser: Browser, server: Towline, count: number): Promise<number> {
  const { tab, close } = await openTab(browser, server, count);
  const shownAt = await tab.evaluate<number>("shown");
  await close();
  return shownAt;
}

const noteShown = `() => {
  window.shown = new Promise((resolve) => {
    const look = () => {
      if (document.querySelector(".rows li") === null) requestAnimationFrame(look);
      else requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
    };
    requestAnimationFrame(look);
  });
}`;

/** Milliseconds from the last key press to the frame that shows the result. */
async function searchFor(tab: Page, text: string): Promise<number> {
  return tab.evaluate<number>(`(async (text) => {
    const input = document.querySelector("input[type=search]");
    const from = performance.now();
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(input, text);
    input.dispatchEvent(new Event("input", { bubbles: true }));
    for (;;) {
      await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
      const rows = [...document.querySelectorAll(".rows .name")];
      if (text === "" ? rows.length > 1 : rows.length === 1 && rows[0].textContent.endsWith(text))
        return performance.now() - from;
    }
  })(${JSON.stringify(text)})`);
}

async function press(tab: Page, button: string): Promise<number> {
  return tab.evaluate<number>(`(async (name) => {
    const button = [...document.querySelectorAll(".filters button")].find((one) => one.textContent.startsWith(name));
    const from = performance.now();
    button.click();
    for (;;) {
      await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
      if (button.getAttribute("aria-pressed") === "true") return performance.now() - from;
    }
  })(${JSON.stringify(button)})`);
}

/** Milliseconds from sending the status to the frame that shows it. */
async function pixelOf({ cluster }: Stage, tab: Page, words: string): Promise<number> {
  const drawn = tab.evaluate<number>(`(async (words) => {
    for (;;) {
      await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
      if (document.querySelector(".rows li")?.textContent.includes(words)) return performance.timeOrigin + performance.now();
    }
  })(${JSON.stringify(words)})`);
  const sentAt = now();
  await cluster.setStatus(namespace, nameOf(0), { lastDriftDetectionResultMessage: words });
  return (await drawn) - sentAt;
}

async function memoryOf(browser: Browser, tab: Page): Promise<{ readonly heap: number; readonly process: number }> {
  const session = await tab.context().newCDPSession(tab);
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  await session.detach();
  return { heap: usedSize, process: ownBytes(await processOf(browser, tab)) };
}

/**
 * Finds the tab's renderer by its CPU time while the tab is busy: the browser keeps other renderers, of closed tabs and
 * for future ones.
 */
async function processOf(browser: Browser, tab: Page): Promise<number> {
  const before = (await rendererPids(browser)).map((pid) => ({ pid, cpu: cpuSeconds(pid) }));
  await tab.evaluate("for (const endsAt = performance.now() + 300; performance.now() < endsAt; );");
  const grown = before.map(({ pid, cpu }) => ({ pid, by: cpuSeconds(pid) - cpu }));
  return grown.toSorted((one, other) => other.by - one.by)[0]?.pid ?? 0;
}
