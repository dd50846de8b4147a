/** Builds the documentation as static HTML. */
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, posix } from "node:path";
import MiniSearch from "minisearch";
import { isElsewhere, resolveLink } from "./links.ts";
import { escapeHtml } from "./html.ts";
import { type MarkdownPage, readMarkdown } from "./markdown.ts";
import { navigation, sitePages } from "./navigation.ts";
import { type Entry, toHtml } from "./page.ts";

/** The script of the site (dev/site/assets/site.js) must use the same options. */
const searchOptions = { fields: ["title", "words"], storeFields: ["title", "page", "address"] };

export interface BuiltSite {
  readonly pages: number;
  /** Files that pages link to, shown unchanged. */
  readonly files: number;
}

export function buildSite(root: string, out: string): BuiltSite {
  rmSync(out, { recursive: true, force: true });
  const shown = new Set<string>();

  function write(address: string, content: string): void {
    const path = join(out, address);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  }

  /** Returns the path from one page to the target of a Markdown link; adds linked pictures and files to the site. */
  function targetOf(file: string, from: string, link: string): string {
    if (isElsewhere(link)) return link;
    const { path, anchor } = resolveLink(file, link);
    const to = addressOf(path);
    if (/\.(png|svg|jpg)$/.test(path)) {
      mkdirSync(dirname(join(out, to)), { recursive: true });
      cpSync(join(root, path), join(out, to));
    } else if (!sitePages.includes(path)) {
      shown.add(path);
    }
    const relative = to === from ? "" : posix.relative(posix.dirname(from), to);
    return `${relative}${anchor && `#${anchor}`}` || posix.basename(to);
  }

  const read = (file: string): readonly [string, MarkdownPage] => {
    const text = readFileSync(join(root, file), "utf8");
    return [file, readMarkdown(text, (link) => targetOf(file, addressOf(file), link))];
  };
  const pages = new Map(sitePages.map(read));
  const entryOf = (file: string): Entry => ({ title: titleOf(file, pages.get(file)), address: addressOf(file) });
  const sections = navigation.map(({ title, pages: files }) => ({ title, pages: files.map(entryOf) }));
  const upOf = (address: string) => "../".repeat(address.split("/").length - 1);

  for (const [file, page] of pages) {
    const address = addressOf(file);
    write(address, toHtml({ page, address, sections, up: upOf(address) }));
  }
  for (const path of shown) {
    const address = addressOf(path);
    const page = { title: path, headings: [], html: sourceOf(root, path) };
    write(address, toHtml({ page, address, sections, up: upOf(address) }));
  }

  const search = new MiniSearch(searchOptions);
  const parts = [...pages].flatMap(([file, { parts: own }]) =>
    own.map(({ text, anchor, words }) => {
      const address = addressOf(file);
      return {
        id: `${address}#${anchor}`,
        address: `${address}#${anchor}`,
        title: text,
        page: entryOf(file).title,
        words,
      };
    }),
  );
  search.addAll(parts);
  cpSync(join(import.meta.dirname, "assets"), join(out, "assets"), { recursive: true });
  const library = createRequire(import.meta.url).resolve("minisearch");
  cpSync(join(dirname(library), "../umd/index.js"), join(out, "assets/minisearch.js"));
  write("assets/search-index.js", `window.searchIndex = ${JSON.stringify(JSON.stringify(search))};\n`);
  return { pages: pages.size, files: shown.size };
}

function titleOf(file: string, page: MarkdownPage | undefined): string {
  if (file === "README.md") return "Overview";
  if (file === "chart/README.md") return "Values of the chart";
  return page?.title ?? file;
}

/** Returns the address on the site for a file of the repository. */
function addressOf(path: string): string {
  if (path === "README.md") return "index.html";
  if (/\.(png|svg|jpg)$/.test(path)) return path;
  if (!sitePages.includes(path)) return `files/${path}.html`;
  return path
    .replace(/^docs\//, "")
    .replace(/(?:\/README)?\.md$/, ".html")
    .toLowerCase();
}

/** Shows the contents of a file, or the files of a directory. */
function sourceOf(root: string, path: string): string {
  const title = `<h1>${escapeHtml(path)}</h1>\n`;
  const whole = join(root, path);
  if (!statSync(whole).isDirectory()) return title + contentOf(whole);
  const files = readdirSync(whole, { recursive: true, encoding: "utf8" })
    .filter((name) => statSync(join(whole, name)).isFile())
    .sort();
  return title + files.map((name) => `<h2>${escapeHtml(name)}</h2>\n${contentOf(join(whole, name))}`).join("");
}

function contentOf(file: string): string {
  const text = escapeHtml(readFileSync(file, "utf8"));
  return `<div class="code"><pre tabindex="0"><code>${text}</code></pre></div>\n`;
}
