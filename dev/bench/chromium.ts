/** A real Chromium, and what its processes take. */
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { type Browser, chromium } from "playwright-core";

const names = ["chromium", "chromium-browser", "google-chrome"];

export async function startChromium(): Promise<Browser> {
  const dirs = (process.env["PATH"] ?? "").split(delimiter);
  const executablePath = dirs.flatMap((dir) => names.map((name) => join(dir, name))).find((path) => existsSync(path));
  if (executablePath === undefined) throw new Error(`It needs a browser on PATH: ${names.join(", ")}.`);
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--enable-precise-memory-info"] });
}

/** The processes that show pages. */
export async function rendererPids(browser: Browser): Promise<readonly number[]> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  await session.detach();
  return processInfo.filter(({ type }) => type === "renderer").map(({ id }) => id);
}
