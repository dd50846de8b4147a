import { expect, test } from "vitest";
import { withStatusName } from "../../../src/forge/status-name.ts";
import type { Forge } from "../../../src/ports.ts";
import { fakeForge } from "../../support/fake-forge.ts";

const commit = { forge: "gitea", repoName: "org/shop", commit: "c".repeat(40) };

test("servers for two clusters write statuses on the same commit without overwriting each other", async () => {
  const forge = fakeForge();
  for (const server of [forge, withStatusName(forge, "towline-eu"), withStatusName(forge, "towline")]) {
    for (const context of ["towline", "towline/shop/prod"]) {
      await server.setStatus(commit, { context, state: "success", description: "no change" });
    }
  }
  expect(forge.statuses.map(({ status }) => status.context)).toEqual([
    "towline",
    "towline/shop/prod",
    "towline-eu",
    "towline-eu/shop/prod",
    "towline",
    "towline/shop/prod",
  ]);
});

test("statuses that are written together get the server's names, and are reported by their usual ones", async () => {
  const written: string[] = [];
  const forge: Forge = {
    ...fakeForge(),
    async setStatuses(_commit, statuses, onShown) {
      for (const status of statuses) {
        written.push(status.context);
        onShown(status, "check");
      }
    },
  };
  const all = ["towline", "towline/shop/prod"].map(
    (context) => ({ context, state: "success", description: "" }) as const,
  );
  const shown: unknown[] = [];
  await withStatusName(forge, "towline-eu").setStatuses?.(commit, all, (status) => void shown.push(status));
  expect(written).toEqual(["towline-eu", "towline-eu/shop/prod"]);
  expect(shown).toEqual(all);
});
