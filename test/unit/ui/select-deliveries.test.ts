import { expect, test } from "vitest";
import type { DeliveryRecord } from "../../../src/model/delivery-record.ts";
import { affectedBy, selectDeliveries } from "../../../ui/select-deliveries.ts";

function aRecord(about: Partial<DeliveryRecord>): DeliveryRecord {
  const none = { deployments: [], ignored: [], ignoredMore: 0, matched: 0, queued: 0 };
  return { v: 1, forge: "gitea", at: 0, ms: 1, status: 202, event: "push", ...none, ...about };
}

test("of a push to a library, each deployment that only includes it is marked", () => {
  const push = aRecord({ deployments: ["shop/library", "shop/prod"], including: ["shop/prod"] });
  expect(affectedBy(push)).toEqual([
    { deployment: "shop/library", includes: false },
    { deployment: "shop/prod", includes: true },
  ]);
});

test("of a pull request in a library, the deployments that include it are shown, and a search finds them", () => {
  const pullRequest = aRecord({ event: "pull-request", pullRequest: 7, previews: 1, including: ["shop/prod"] });
  expect(affectedBy(pullRequest)).toEqual([{ deployment: "shop/prod", includes: true }]);
  const other = aRecord({ deployments: ["blog/prod"] });
  expect(selectDeliveries([pullRequest, other], "SHOP/prod #7")).toEqual([pullRequest]);
  expect(selectDeliveries([pullRequest, other], "blog")).toEqual([other]);
});
