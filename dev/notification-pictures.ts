/**
 * Renders pictures of notifications, from what is really sent, in an imitation of each client in light and dark:
 * `dev/run dev/notification-pictures.ts DIR`. Needs Chromium on the PATH and, for the icons, a font with emoji.
 */
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Page } from "playwright-core";
import type { Notification } from "../src/model.ts";
import { renderMail } from "../src/notify/email/message.ts";
import { renderMessage } from "../src/notify/slack/message.ts";
import { renderCard } from "../src/notify/teams/card.ts";
import { startChromium } from "./bench/chromium.ts";
import { samples } from "./notification-pictures/samples.ts";
import { toSlackHtml } from "./notification-pictures/slack.ts";
import { toTeamsHtml } from "./notification-pictures/teams.ts";
import { escapeHtml } from "./site/html.ts";

const directory = process.argv[2];
if (directory === undefined) throw new Error("A directory is needed: dev/run dev/notification-pictures.ts DIR");
const style = await readFile(join(import.meta.dirname, "notification-pictures", "style.css"), "utf8");

const clients: Readonly<Record<string, (message: Notification) => string>> = {
  slack: (message) => toSlackHtml(renderMessage(message, {}) ?? tooLarge()),
  teams: (message) => toTeamsHtml(renderCard(message) ?? tooLarge()),
  mail: toMailHtml,
};

await mkdir(directory, { recursive: true });
const browser = await startChromium();
try {
  const page = await browser.newPage({ javaScriptEnabled: false, viewport: { width: 760, height: 900 } });
  for (const [name, message] of Object.entries(samples)) {
    for (const [client, toHtml] of Object.entries(clients)) {
      await page.setContent(`<meta charset="utf-8"><style>${style}</style><div id="sheet">${toHtml(message)}</div>`);
      for (const colorScheme of ["light", "dark"] as const) {
        await page.emulateMedia({ colorScheme });
        await fitFrames(page);
        const file = join(directory, `${client}-${name}-${colorScheme}.png`);
        await page.locator("#sheet").screenshot({ path: file });
        process.stderr.write(`${file}\n`);
      }
    }
  }
} finally {
  await browser.close();
}

/** Mail programs, too, show the document in a frame of its own. */
function toMailHtml(message: Notification): string {
  const { subject, html } = renderMail(message);
  return `<div class="mail">
<p class="subject">${escapeHtml(subject)}</p>
<div class="from"><b>Towline</b> &lt;towline@example.com&gt; to team@example.com</div>
<iframe srcdoc="${escapeHtml(html)}"></iframe>
</div>`;
}

/** A frame does not grow with its document. */
async function fitFrames(page: Page): Promise<void> {
  for (const frame of page.frames().slice(1)) {
    const height = await frame.evaluate("document.documentElement.scrollHeight");
    await page.locator("iframe").evaluate((element, pixels) => {
      element.style.height = `${pixels}px`;
    }, Number(height));
  }
}

function tooLarge(): never {
  throw new Error("The sample is too large for its target.");
}
