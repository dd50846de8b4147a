/** Checks that every link of the documentation has a target and that the navigation lists every page. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join, posix } from "node:path";
import { readMarkdown } from "./markdown.ts";
import { sitePages } from "./navigation.ts";

/** Returns every violation as `file:line: what is wrong`. */
export function checkLinks(root: string): string[] {
  const pages = readdirSync(join(root, "docs")).filter((name) => name.endsWith(".md"));
  const lost = pages
    .map((name) => `docs/${name}`)
    .filter((file) => !sitePages.includes(file))
    .map((file) => `${file}: is not listed in dev/site/navigation.ts`);
  const anchors = new Map<string, ReadonlySet<string>>();

  function anchorsOf(file: string): ReadonlySet<string> {
    const known = anchors.get(file);
    if (known !== undefined) return known;
    const found = new Set(readMarkdown(readFileSync(join(root, file), "utf8")).headings.map(({ anchor }) => anchor));
    anchors.set(file, found);
    return found;
  }

  function problemOf(file: string, target: string): string | undefined {
    if (isElsewhere(target)) return undefined;
    const { path, anchor } = resolveLink(file, target);
    if (path.startsWith("..")) return `${target}: points outside the repository`;
    if (!existsSync(join(root, path))) return `${target}: there is no ${path}`;
    if (anchor === "") return undefined;
    if (statSync(join(root, path)).isDirectory() || !path.endsWith(".md")) return `${target}: ${path} has no anchors`;
    return anchorsOf(path).has(anchor) ? undefined : `${target}: ${path} has no heading #${anchor}`;
  }

  const wrong = sitePages.flatMap((file) => {
    if (!existsSync(join(root, file))) return [`dev/site/navigation.ts: there is no ${file}`];
    const { links } = readMarkdown(readFileSync(join(root, file), "utf8"));
    return links.flatMap(({ target, line }) => {
      const problem = problemOf(file, target);
      return problem === undefined ? [] : [`${file}:${line}: ${problem}`];
    });
  });
  return [...lost, ...wrong];
}

export function isElsewhere(target: string): boolean {
  return /^[a-z][a-z0-9+.-]*:/i.test(target);
}

/** Resolves the link of a page to a path relative to the root of the repository. */
export function resolveLink(file: string, target: string): { readonly path: string; readonly anchor: string } {
  const [path = "", anchor = ""] = target.split("#");
  return { path: path === "" ? file : posix.join(posix.dirname(file), decodeURI(path)).replace(/\/$/, ""), anchor };
}
