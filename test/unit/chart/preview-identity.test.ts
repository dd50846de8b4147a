/** The example of an identity for previews, used as its comments describe. */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";

const dir = join(import.meta.dirname, "../../../examples/preview-identity");

interface Found {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

const parse = (text: string) => parseAllDocuments(text).map((document) => document.toJS() as Found);
const nameOf = ({ kind, metadata: { namespace = "", name } }: Found) => `${kind} ${namespace}/${name}`;

test("an account for another namespace does not change the objects of the first one", async () => {
  const server = await readFile(join(dir, "server.yaml"), "utf8");
  const [, command = ""] = /^# +2\. (sed .* service-account\.yaml) \|/m.exec(server) ?? [];
  const { stdout } = await promisify(execFile)("bash", ["-c", command], { cwd: dir });
  const [first, second] = [parse(await readFile(join(dir, "service-account.yaml"), "utf8")), parse(stdout)];
  const known = new Map(first.map((object) => [nameOf(object), object]));
  for (const object of second) expect(known.get(nameOf(object)) ?? object).toEqual(object);
  expect(second.map(nameOf)).toContain("ServiceAccount previews/towline-preview");
  expect(stdout).toContain("namespace: shop-staging"); // the namespace that is compared stays
});
