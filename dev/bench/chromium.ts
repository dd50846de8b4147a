/** Starts a real Chromium and measures the resources of its processes. */
import { type Browser, chromium } from "playwright-core";
import { findTools } from "../tools.ts";

export async function startChromium(): Promise<Browser> {
  const { chromium: executablePath } = await findTools(["chromium"], {
    say: (line) => process.stderr.write(`${line}\n`),
  });
  return chromium.launch({ executablePath, args: ["--no-sandbox", "--enable-precise-memory-info"] });
}

/** Process ids of the renderers, which draw the pages. */
export async function rendererPids(browser: Browser): Promise<readonly number[]> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  await session.detach();
  return processInfo.filter(({ type }) => type === "renderer").map(({ id }) => id);
}
