/** One page of the site as HTML. It loads nothing from other hosts and can be opened from the disk. */
import { escapeHtml } from "./html.ts";
import type { Heading, MarkdownPage } from "./markdown.ts";
import type { Section } from "./navigation.ts";

export interface PageParts {
  readonly page: Pick<MarkdownPage, "title" | "html" | "headings">;
  /** Address of the page on the site. */
  readonly address: string;
  readonly sections: readonly { readonly title: Section["title"]; readonly pages: readonly Entry[] }[];
  /** Relative path to the root of the site: `../`, or empty. */
  readonly up: string;
}

export interface Entry {
  readonly title: string;
  readonly address: string;
}

export function toHtml({ page, address, sections, up }: PageParts): string {
  const entries = sections.flatMap(({ pages }) => pages);
  const at = entries.findIndex((entry) => entry.address === address);
  const [before, after] = at < 0 ? [] : [entries[at - 1], entries[at + 1]];
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src 'self' file: data:; base-uri 'none'; form-action 'none'">
<title>${escapeHtml(page.title)}${page.title === "Towline" ? "" : " · Towline"}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${up}assets/style.css">
<script src="${up}assets/theme.js"></script>
<script src="${up}assets/minisearch.js" defer></script>
<script src="${up}assets/search-index.js" defer></script>
<script src="${up}assets/site.js" defer></script>
</head>
<body data-up="${up}">
<a class="skip" href="#content">Skip to content</a>
<header>
<button id="menu" aria-label="Pages" aria-expanded="false" aria-controls="pages">☰</button>
<a class="brand" href="${up}index.html">Towline</a>
<div class="search" role="search">
<input id="search" type="search" placeholder="Search (press /)" aria-label="Search the documentation" autocomplete="off" aria-controls="results">
<ol id="results" aria-label="Found" hidden></ol>
</div>
<button id="theme" aria-label="Light or dark">◐</button>
</header>
<nav id="pages" aria-label="Pages">
${sections.map(({ title, pages }) => section(title, pages, address, up)).join("\n")}
</nav>
<main id="content" tabindex="-1">
<article>
${page.html}</article>
<div class="around">${neighbour("←", before, up)}${neighbour("→", after, up)}</div>
</main>
<aside aria-label="On this page">${contents(page.headings)}</aside>
</body>
</html>
`;
}

function section(title: string, pages: readonly Entry[], current: string, up: string): string {
  const items = pages.map((entry) => {
    const here = entry.address === current ? ' aria-current="page"' : "";
    return `<li><a href="${up}${entry.address}"${here}>${escapeHtml(entry.title)}</a></li>`;
  });
  return `<h2>${escapeHtml(title)}</h2>\n<ul>\n${items.join("\n")}\n</ul>`;
}

function neighbour(arrow: string, entry: Entry | undefined, up: string): string {
  if (entry === undefined) return "<span></span>";
  const title = escapeHtml(entry.title);
  return `<a href="${up}${entry.address}">${arrow === "←" ? `← ${title}` : `${title} →`}</a>`;
}

function contents(headings: readonly Heading[]): string {
  const shown = headings.filter(({ level }) => level === 2 || level === 3);
  if (shown.length < 2) return "";
  const items = shown.map(
    ({ level, text, anchor }) => `<li class="level${level}"><a href="#${anchor}">${escapeHtml(text)}</a></li>`,
  );
  return `<h2>On this page</h2>\n<ul>\n${items.join("\n")}\n</ul>`;
}
