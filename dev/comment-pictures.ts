/**
 * Renders pictures of comments as a real Gitea displays them: `dev/run dev/comment-pictures.ts [DIR]`. With a directory
 * all samples, without one those of the docs. Needs Chromium on the PATH and, for the icons, a font with emoji.
 */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { renderComment } from "../src/comment/comment.ts";
import { startBrowser } from "./comment-pictures/browser.ts";
import { samples } from "./comment-pictures/samples.ts";
import { createGiteaClient, type GiteaClient } from "./parts/gitea-client.ts";
import type { GiteaLogin } from "./parts/gitea.ts";
import { createWorkCopy } from "./parts/work-copy.ts";
import { findTools } from "./tools.ts";
import { createWorld } from "./world.ts";

const inDocs = ["change", "deletion", "errors", "told-apart", "many-deployments", "working"];
/** Samples whose folded sections are shown open, in addition to those that are open by default. */
const unfolded = new Set(["change", "deletion", "told-apart", "prune-waits", "merged", "hostile"]);

const [target = join(import.meta.dirname, "..", "docs", "images"), names] =
  process.argv[2] === undefined ? [undefined, inDocs] : [process.argv[2], Object.keys(samples)];
const style = await readFile(join(import.meta.dirname, "comment-pictures", "style.css"), "utf8");
const say = (line: string) => process.stderr.write(`${line}\n`);

const fonts = await promisify(execFile)("fc-list").catch(() => ({ stdout: "" }));
if (!/emoji/i.test(fonts.stdout)) say("no emoji font: icons will be boxes (on Debian, install fonts-noto-color-emoji)");

const world = await createWorld({ say });
const work = await mkdtemp(join(tmpdir(), "towline-pictures-"));
try {
  await mkdir(target, { recursive: true });
  const login = await world.part("gitea");
  const gitea = createGiteaClient(login);
  const page = await openPullRequest(gitea, login);
  const comments = await postComments(gitea, login);
  await takePictures(page, comments);
} finally {
  await rm(work, { recursive: true, force: true });
  await world.stop();
}

/** Returns the URL of its page. */
async function openPullRequest(gitea: GiteaClient, { user }: GiteaLogin): Promise<string> {
  const { pushUrl } = await gitea.createRepository(user, "shop");
  const copy = await createWorkCopy(work, pushUrl);
  await copy.push({ "README.md": "A shop.\n" });
  await copy.push({ "README.md": "A better shop.\n" }, { branch: "better" });
  const pull = { head: "better", base: "main", title: "A better shop" };
  const { html_url } = await gitea.call<{ html_url: string }>("POST", `/repos/${user}/shop/pulls`, pull);
  return html_url;
}

/** Returns the id of each sample's comment. */
async function postComments(gitea: GiteaClient, { user }: GiteaLogin): Promise<Map<string, number>> {
  const ids = new Map<string, number>();
  for (const name of names) {
    const report = samples[name];
    if (report === undefined) continue;
    const body = renderComment(report, { maxLength: 65_536, marker: "<!-- towline -->" });
    const { id } = await gitea.call<{ id: number }>("POST", `/repos/${user}/shop/issues/1/comments`, { body });
    ids.set(name, id);
  }
  return ids;
}

async function takePictures(page: string, comments: ReadonlyMap<string, number>): Promise<void> {
  const browser = await startBrowser((await findTools(["chromium"], { say })).chromium);
  try {
    await browser.open(page);
    await browser.evaluate(
      `document.head.append(Object.assign(document.createElement("style"), { textContent: ${JSON.stringify(style)} }))`,
    );
    for (const [name, id] of comments) {
      const comment = `#issuecomment-${id} .render-content`;
      await browser.evaluate(`document.querySelector("${comment}").classList.add("sheet")`);
      if (unfolded.has(name)) {
        await browser.evaluate(`document.querySelectorAll("${comment} details").forEach((fold) => (fold.open = true))`);
      }
      const file = join(target, `comment-${name}.png`);
      await writeFile(file, await browser.picture(comment));
      say(file);
    }
  } finally {
    await browser.stop();
  }
}
