/** Checks, before a pull request is opened, that there is a service account for comparing it. */
import { expect, test } from "vitest";
import { loadConfig } from "../../../src/config.ts";
import { examinePreviewAccounts } from "../../../src/doctor/preview-accounts.ts";
import { aDeployment } from "../../support/deployments.ts";
import { fakeDoctorCluster } from "../../support/fake-doctor-cluster.ts";

const required = { TOWLINE_PREVIEW_ENABLED: "true", TOWLINE_PREVIEW_ISOLATION: "required" };

async function examine(
  env: Record<string, string | undefined>,
  deployments: Parameters<typeof examinePreviewAccounts>[2],
) {
  const { config } = loadConfig({ env: { ...required, ...env }, readFile: () => "" });
  const cluster = fakeDoctorCluster({ missingAccounts: ["shop/missing"] });
  const found = await examinePreviewAccounts(cluster, config, deployments);
  return found.map(({ level, message }) => `${level} ${message}`);
}

const named = (...names: string[]) => names.map((name) => aDeployment({ key: { namespace: "shop", name } }));

test("deployments without a service account for previews are named where previews require one", async () => {
  const nobody = "no service account, so pull requests are not previewed";
  expect(await examine({}, named("a", "b"))).toEqual([`problem shop/a, shop/b: ${nobody}`]);
  const five = named("a", "b", "c", "d", "e");
  expect(await examine({}, five)).toEqual([`problem shop/a, shop/b, shop/c and 2 more: ${nobody}`]);
  for (const fine of [
    { TOWLINE_PREVIEW_SERVICE_ACCOUNT_NAME: "towline-preview" },
    { TOWLINE_DEFAULT_SERVICE_ACCOUNT: "towline-deployer" },
    { TOWLINE_PREVIEW_ISOLATION: "auto" },
    { TOWLINE_PREVIEW_ENABLED: "false" },
  ])
    expect(await examine(fine, five)).toEqual([]);
});

test("a missing service account is named once", async () => {
  const missing = ["problem service account shop/missing does not exist: pull requests are not previewed"];
  expect(await examine({ TOWLINE_PREVIEW_SERVICE_ACCOUNT_NAME: "missing" }, named("a", "b"))).toEqual(missing);
  const own = aDeployment({ spec: { serviceAccountName: "missing" } });
  expect(await examine({}, [own])).toEqual(missing);
  expect(await examine({ TOWLINE_PREVIEW_ISOLATION: "off" }, [own])).toEqual([]);
});

test("deployments to another cluster are not reported", async () => {
  expect(await examine({}, [aDeployment({ spec: { kubeConfig: { secretName: "remote" } } })])).toEqual([]);
});
