/** User-facing texts use one word per idea, so that readers who search for a word find it. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findMessages, messagesIn } from "../../../dev/language/messages.ts";
import { banned, bannedInMessages, findOffences, findProse } from "../../../dev/language/vocabulary.ts";

const root = join(import.meta.dirname, "../../..");

test("no message of the program uses a banned word", () => {
  const messages = findMessages(root);
  expect(messages.length).toBeGreaterThan(2_000);
  const offences = messages.flatMap(({ file, line, text }) =>
    findOffences(text, bannedInMessages).map(({ word, instead }) => `${file}:${line} "${word}" (${instead}): ${text}`),
  );
  expect(offences).toEqual([]);
});

test("no page of the documentation uses a banned word", () => {
  const pages = globSync(["*.md", "docs/*.md", "chart/README.md", "examples/**/*.md"], { cwd: root });
  expect(pages.length).toBeGreaterThan(30);
  const offences = pages.flatMap((page) =>
    findProse(readFileSync(join(root, page), "utf8"))
      .flatMap((text) => findOffences(text, banned))
      .map(({ word, instead, text }) => `${page} "${word}" (${instead}): ${text}`),
  );
  expect(offences).toEqual([]);
});

test("messages are found in help, errors, logs and pages, and programs in other languages are ignored", () => {
  const source = `
    import { a } from "a module of words";
    log.warn({ key }, "lease lost: kluctl was killed");
    throw new RequestError(400, \`the body of \${name} is too long\`);
    const program = String.raw\`print "not for people"\`;
    const names = ["single", "a/path", "two words"];
  `;
  expect(messagesIn("x.ts", source).map(({ line, kind, text }) => [line, kind, text])).toEqual([
    [3, "log", "lease lost: kluctl was killed"],
    [4, "error", "the body of … is too long"],
    [6, "text", "two words"],
  ]);
  expect(messagesIn("x.tsx", `const one = <p title="what it means">{count} pods are ready</p>;`)).toMatchObject([
    { text: "what it means" },
    { text: "pods are ready" },
  ]);
});

test("a banned word is found anywhere in prose, and code in a page is not prose", () => {
  const page =
    "# Old API\n\nThe `told` flag is *told* anew.\n\n| a | b |\n| - | - |\n| whoever | `anew` |\n\n```sh\nanew\n```\n";
  const found = findProse(page).flatMap((text) => findOffences(text, banned).map(({ word }) => word));
  expect(found).toEqual(["told", "anew", "whoever"]);
  expect(findOffences("Towline cannot tell which; if there is none, GitLab creates one", bannedInMessages)).toEqual([]);
});
