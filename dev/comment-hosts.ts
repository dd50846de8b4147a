/**
 * Renders pictures of comments in imitations of GitHub, GitLab and Gitea, in light and dark:
 * `dev/run dev/comment-hosts.ts DIR [SAMPLE …]`. Fails if a host's sanitizer would remove something. Needs Chromium on the
 * PATH and, for the icons, a font with emoji.
 */
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { renderComment } from "../src/comment/comment.ts";
import { startChromium } from "./bench/chromium.ts";
import { allowed, type Host, hosts, toHtml } from "./comment-pictures/hosts/hosts.ts";
import { samples } from "./comment-pictures/samples.ts";

const [directory, ...names] = process.argv.slice(2);
if (directory === undefined) throw new Error("A directory is needed: dev/run dev/comment-hosts.ts DIR [SAMPLE …]");
/** One deployment, some, 20 and 200. */
const usual = ["one-deployment", "deletion", "20-deployments", "200-deployments", "rollout"];
/** No host shows more of a comment at once, and no reader scrolls further. */
const maxHeight = 2_400;

/** In the page: removes what is not allowed, and returns what that was. */
const sanitize = `(list) => {
  const removed = new Set();
  for (const element of document.querySelectorAll("#sheet *")) {
    const attributes = list[element.localName];
    if (attributes === undefined) {
      removed.add("<" + element.localName + ">");
      element.replaceWith(...element.childNodes);
      continue;
    }
    for (const { name } of [...element.attributes].filter((one) => !attributes.includes(one.name))) {
      removed.add(name + " of <" + element.localName + ">");
      element.removeAttribute(name);
    }
  }
  return [...removed];
}`;
/** In the page: opens all sections, or leaves open what the comment opens. */
const unfold = `(all) => {
  for (const fold of document.querySelectorAll("#sheet details")) {
    fold.dataset.asSent ??= String(fold.open);
    fold.open = all || fold.dataset.asSent === "true";
  }
}`;

await mkdir(directory, { recursive: true });
const browser = await startChromium();
try {
  for (const host of hosts) {
    const page = await browser.newPage({ javaScriptEnabled: true, viewport: { width: host.width, height: maxHeight } });
    for (const name of names.length > 0 ? names : usual) await takePictures(page, host, name);
    await page.close();
  }
} finally {
  await browser.close();
}

async function takePictures(page: Page, host: Host, name: string): Promise<void> {
  const report = samples[name];
  if (report === undefined) throw new Error(`There is no sample ${name}: ${Object.keys(samples).join(", ")}`);
  const html = toHtml(renderComment(report, { maxLength: 65_536, marker: "<!-- towline -->" }));
  const style = await readFile(join(import.meta.dirname, "comment-pictures", "hosts", `${host.name}.css`), "utf8");
  await page.setContent(
    `<!doctype html><meta charset="utf-8"><style>${style}</style><div id="sheet" class="${host.className}">${html}</div>`,
  );
  const removed = await page.evaluate<string[]>(`(${sanitize})(${JSON.stringify(allowed)})`);
  if (removed.length > 0) throw new Error(`${host.name} removes from ${name}: ${removed.join(", ")}`);
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    for (const state of ["folded", "open"] as const) {
      await page.evaluate(`(${unfold})(${state === "open"})`);
      const file = join(directory!, `${host.name}-${name}-${state}-${colorScheme}.png`);
      const height = await page.evaluate<number>(`document.querySelector("#sheet").getBoundingClientRect().height`);
      await page.screenshot({
        path: file,
        clip: { x: 0, y: 0, width: host.width, height: Math.min(height, maxHeight) },
      });
      process.stderr.write(`${file}\n`);
    }
  }
}
