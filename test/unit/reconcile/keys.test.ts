import { expect, test } from "vitest";
import { projectKey } from "../../../src/reconcile/keys.ts";

test.each([
  ["https://Git.Example.com:3000/Shop/web.git", "git://Git.Example.com:3000/Shop/web"],
  ["https://u:secret@git.example.com/shop/web", "git://git.example.com/shop/web"],
  ["https://u:sec@ret@git.example.com/shop/web", "git://git.example.com/shop/web"],
  ["ssh://git@git.example.com:2222/shop/web.git", "git://git.example.com:2222/shop/web"],
  ["git@git.example.com:shop/web.git", "git://git.example.com/shop/web"],
  ["http://git.example.com/shop/web/.git", "git://git.example.com/shop/web"],
  ["http://git.example.com/shop/web.git/", "git://git.example.com/shop/web.git"],
])("%s has the key %s", (url, repoKey) => {
  expect(projectKey({ kind: "git", url, ref: {}, path: "" })).toEqual({ repoKey });
});
