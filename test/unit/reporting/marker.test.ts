import { expect, test } from "vitest";
import { createMarker } from "../../../src/reporting/marker.ts";

const key = { forge: "gitea", repoName: "org/shop", number: 7 };
const one = createMarker({
  secrets: ["first-secret-of-two", "second-secret-of-two"],
  instance: "cluster-a",
  owner: "",
});

test("a comment is recognised by its marker, wherever the marker stands in the text", () => {
  expect(one.isOn(one.text(key), key)).toBe(true);
  expect(one.isOn(`${one.text(key)}\n### Towline`, key)).toBe(true);
  expect(one.isOn(`### Towline\n\n${one.text(key)}\n`, key)).toBe(true);
  expect(one.isOn(`${one.text(key).replaceAll("\n", "\r\n")}\r\n### Towline`, key)).toBe(true);
  // The marker has two lines; servers of an older version know the first.
  expect(one.text(key)).toMatch(/^<!-- towline:v1:[\w-]{43} -->\n<!-- towline-owner:[\w-]{12} -->$/);
});

test("a marker copied from another pull request, repository or forge is not accepted", () => {
  for (const other of [{ number: 8 }, { repoName: "org/shop2" }, { forge: "gitlab" }]) {
    expect(one.isOn(one.text({ ...key, ...other }), key)).toBe(false);
  }
});

test("a forged, shortened or embedded marker is not accepted", () => {
  const forged = createMarker({ secrets: ["a guess of somebody's"], instance: "cluster-a", owner: "" });
  const [line = ""] = one.text(key).split("\n");
  for (const body of ["", forged.text(key), line.slice(0, -6), `> ${line}`, line.replace("v1:", "v1:A"), `x ${line}`]) {
    expect(one.isOn(body, key)).toBe(false);
  }
});

test("comments with the previous secret are recognised while it is being replaced, and not for ever", () => {
  const before = createMarker({ secrets: ["second-secret-of-two"], instance: "cluster-a", owner: "" });
  const after = createMarker({ secrets: ["first-secret-of-two"], instance: "cluster-a", owner: "" });

  expect(one.isOn(before.text(key), key)).toBe(true);
  expect(after.isOn(one.text(key), key)).toBe(true);
  expect(after.isOn(before.text(key), key)).toBe(false);
});

test("servers for two clusters keep a comment each, though they share a secret", () => {
  const other = createMarker({ secrets: ["first-secret-of-two"], instance: "cluster-b", owner: "" });
  expect(one.isOn(other.text(key), key)).toBe(false);
});

test("servers that are one instance by mistake find each other's comments, and see their owner", () => {
  const of = (owner: string) => createMarker({ secrets: ["first-secret-of-two"], instance: "cluster-a", owner });
  const [shop, tools] = [of("shop"), of("tools")];
  expect(shop.isOn(tools.text(key), key)).toBe(true);
  expect(shop.isByAnother(tools.text(key), key)).toBe(true);
  expect(shop.isByAnother(shop.text(key), key)).toBe(false);
  expect(shop.isByAnother(tools.text(key).replace("\n", "\r\n"), key)).toBe(true);
  expect(shop.isByAnother(tools.text({ ...key, number: 8 }), key)).toBe(false);
  // A line further down may be text from a user, and a comment of an older version has no owner line.
  const [signed, owner] = tools.text(key).split("\n");
  expect(shop.isByAnother(`${signed}\n\n${owner}`, key)).toBe(false);
});
