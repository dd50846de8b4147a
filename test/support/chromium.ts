/** A real Chromium. */
import { join } from "node:path";
import axe from "axe-core";
import { type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { expect, onTestFinished } from "vitest";
import { findTools } from "../../dev/tools.ts";
import { patience } from "./patience.ts";

/**
 * A page, and its problems: scripts that ran although they should not, violations of the content security policy,
 * errors.
 */
export async function useBrowserPage(options: BrowserContextOptions = {}) {
  const { chromium: executablePath } = await findTools(["chromium"], { say: () => undefined });
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  onTestFinished(() => browser.close());
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...options });
  context.setDefaultTimeout(patience.timeout);
  const trouble: string[] = [];
  await context.exposeFunction("hit", () => void trouble.push("a script ran"));
  await context.addInitScript(
    'addEventListener("securitypolicyviolation", (event) => console.error("the policy kept out " + event.blockedURI));',
  );
  const page = await context.newPage();
  page.on("pageerror", (error) => trouble.push(error.message));
  page.on("dialog", (dialog) => {
    trouble.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    // A 401 only reports that the user is not logged in yet; the browser logs it as an error.
    if (message.type() === "error" && !message.text().includes("401")) trouble.push(message.text());
  });
  page.on("request", (request) => {
    const { protocol, hostname } = new URL(request.url());
    if (protocol !== "data:" && hostname !== "127.0.0.1") trouble.push(`asked for ${request.url()}`);
  });
  return { page, context, trouble };
}

/** To renew the pictures of docs/page.md, run the tests of the page with TOWLINE_PAGE_PICTURES=docs/images. */
const pictures = process.env["TOWLINE_PAGE_PICTURES"];

/** Checks accessibility: axe must find no problem in the light and the dark theme. */
export async function examine(page: Page, picture?: string): Promise<void> {
  if (pictures && picture) await page.screenshot({ path: join(pictures, `page-${picture}.png`) });
  await page.evaluate(axe.source);
  const chosen = (await page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")) ? "dark" : "light";
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    const violations = await page.evaluate("axe.run().then(({ violations }) => violations)");
    const found = violations as { id: string; nodes: { html: string; failureSummary: string }[] }[];
    expect(
      found.map(({ id, nodes }) => [id, nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`)]),
      colorScheme,
    ).toEqual([]);
  }
  await page.emulateMedia({ colorScheme: chosen });
}
