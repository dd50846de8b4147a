/** A headless browser, controlled through the DevTools protocol. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startProcess } from "../parts/process.ts";
import { freePort } from "../parts/port.ts";

export interface Browser {
  open(url: string): Promise<void>;
  /** Runs the script in the page, whose own scripts are disabled; the result is passed as JSON. */
  evaluate<T>(script: string): Promise<T>;
  /** A PNG of the first element that the selector matches. */
  picture(selector: string): Promise<Buffer>;
  stop(): Promise<void>;
}

interface Answer {
  readonly id?: number;
  readonly method?: string;
  readonly result?: unknown;
  readonly error?: { readonly message: string };
}

export async function startBrowser(command: string): Promise<Browser> {
  const dir = await mkdtemp(join(tmpdir(), "towline-browser-"));
  const port = await freePort();
  const args = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", `--remote-debugging-port=${port}`];
  const browser = await startProcess({
    name: "chromium",
    command,
    args: [...args, `--user-data-dir=${dir}`, "--window-size=1100,900", "about:blank"],
    logFile: join(dir, "browser.log"),
    env: { PATH: process.env["PATH"], HOME: dir },
    cwd: dir,
  });
  await browser.ready(async () => (await fetch(`http://127.0.0.1:${port}/json/version`)).ok);
  const pages = (await (await fetch(`http://127.0.0.1:${port}/json`)).json()) as readonly PageTarget[];
  const page = pages.find(({ type }) => type === "page");
  if (page === undefined) throw new Error("The browser has no page.");
  const session = await connect(page.webSocketDebuggerUrl);

  async function evaluate<T>(expression: string): Promise<T> {
    const answer = await session.call("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    return (answer as { result: { value: T } }).result.value;
  }
  await session.call("Page.enable");
  // An alert of the page would block until a user closes it.
  await session.call("Emulation.setScriptExecutionDisabled", { value: true });
  return {
    evaluate,
    async open(url) {
      const loaded = session.next("Page.loadEventFired");
      await session.call("Page.navigate", { url });
      await loaded;
    },
    async picture(selector) {
      const { x, y, width, height } = await evaluate<Box>(
        `(() => { const { x, y, width, height } = document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect();
          return { x: x + scrollX, y: y + scrollY, width, height }; })()`,
      );
      const clip = { x, y, width, height, scale: 1 };
      const options = { format: "png", clip, captureBeyondViewport: true };
      const { data } = (await session.call("Page.captureScreenshot", options)) as { data: string };
      return Buffer.from(data, "base64");
    },
    async stop() {
      session.close();
      await browser.stop();
      await rm(dir, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

interface PageTarget {
  readonly type: string;
  readonly webSocketDebuggerUrl: string;
}

interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

async function connect(url: string) {
  const socket = new WebSocket(url);
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener("open", () => resolve(), { once: true });
    socket.addEventListener("error", () => reject(new Error("The browser does not answer.")), { once: true });
  });
  let last = 0;
  const waiting = new Map<number, (answer: Answer) => void>();
  const listening = new Map<string, () => void>();
  socket.addEventListener("message", ({ data }) => {
    const answer = JSON.parse(String(data)) as Answer;
    if (answer.id !== undefined) waiting.get(answer.id)?.(answer);
    if (answer.method !== undefined) listening.get(answer.method)?.();
  });
  return {
    async call(method: string, params: object = {}): Promise<unknown> {
      const id = ++last;
      const answer = await new Promise<Answer>((resolve) => {
        waiting.set(id, resolve);
        socket.send(JSON.stringify({ id, method, params }));
      });
      waiting.delete(id);
      if (answer.error !== undefined) throw new Error(`${method}: ${answer.error.message}`);
      return answer.result;
    },
    next: (event: string) => new Promise<void>((resolve) => listening.set(event, resolve)),
    close: () => socket.close(),
  };
}
