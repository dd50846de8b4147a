/** `npm run docs:site`: builds the documentation as static HTML in `site/`, without network access. */
import { join } from "node:path";
import { buildSite } from "./site/build.ts";
import { checkLinks } from "./site/links.ts";

const root = join(import.meta.dirname, "..");
const out = join(root, "site");
const wrong = checkLinks(root);
if (wrong.length > 0) {
  process.stderr.write(`${wrong.join("\n")}\n`);
  process.exitCode = 1;
} else {
  const { pages, files } = buildSite(root, out);
  process.stdout.write(`${pages} pages and ${files} linked files: open ${join(out, "index.html")}\n`);
}
