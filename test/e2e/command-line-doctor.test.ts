/** What `towline doctor` reports about git hosts. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { runDoctor } from "../../src/app/doctor.ts";
import { findWriteAccess } from "../../src/forge/write-access.ts";
import { towline as commandLine } from "../support/command-line.ts";
import { silentLog } from "../support/fakes.ts";
import { useGiteaHost } from "../support/gitea-host.ts";
import { useGithubHost } from "../support/github-host.ts";
import { aSpec } from "../support/project.ts";
import { environment } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

interface Found {
  readonly subject: string;
  readonly level: string;
  readonly message: string;
}

test("the doctor reports a login that may not write comments and statuses, and a host with a wrong clock", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const host = await useGiteaHost();
  const [botToken = ""] = host.secrets;
  const late = createServer((_request, response) => {
    response.setHeader("Date", new Date(Date.now() - 2 * 3_600_000).toUTCString());
    response.writeHead(404).end();
  }).listen(0, "127.0.0.1");
  await once(late, "listening");
  onTestFinished(() => void late.close());
  const lateHost = `127.0.0.1:${(late.address() as AddressInfo).port}`;

  await cluster.deployment("shop").create(aSpec(host.repoUrl));
  await cluster.deployment("late").create(aSpec(`http://${lateHost}/org/late.git`));
  const written = async () => {
    const [statuses, comments] = [`commits/main/statuses`, "issues/comments"].map((path) =>
      host.call<unknown[]>("GET", `/repos/${host.repoName}/${path}`),
    );
    return [await statuses, await comments];
  };
  const before = await written();
  const doctor = async (token: string): Promise<Found[]> => {
    const env = {
      ...environment(world),
      PATH: process.env["PATH"],
      TOWLINE_GITEA_API_URL: host.apiUrl,
      TOWLINE_GITEA_TOKEN: token,
    };
    const { out } = await commandLine(["doctor", "--no-compare", "-o", "json"], { env, doctor: runDoctor });
    return (JSON.parse(out) as { checks: Found[] }).checks;
  };

  const allowed = await doctor(botToken);
  expect(allowed).toContainEqual(
    expect.objectContaining({
      subject: "forge gitea",
      level: "ok",
      message: `${host.repoName.toLowerCase()}: the login may write comments and commit statuses`,
    }),
  );
  const refused = await doctor(await host.readOnlyToken());
  expect(refused).toContainEqual(
    expect.objectContaining({
      subject: "forge gitea",
      level: "problem",
      message: `${host.repoName.toLowerCase()}: the login may not write comments and commit statuses`,
    }),
  );
  // The doctor determines this without writing anything.
  expect(await written()).toEqual(before);

  const clocks = allowed
    .filter(({ subject }) => subject === "clock")
    .map(({ level, message }) => `${level} ${message}`);
  expect(clocks).toContain(`ok in sync with ${new URL(host.apiUrl).host}`);
  expect(clocks).toContainEqual(
    expect.stringMatching(`^warning this machine's clock is (?:7199|7200|7201) s ahead of that of ${lateHost}$`),
  );
});

test("on GitHub, missing permissions of a token and of an App are reported", async () => {
  const host = await useGithubHost();
  const { logins, repoName, apiUrl } = host;
  const lacks = async (login: Parameters<typeof findWriteAccess>[0]["login"]) =>
    (await findWriteAccess({ kind: "github", apiUrl, login, log: silentLog, deployments: true }, repoName)).lacks;
  const { token } = logins;
  logins.permissions = { pull_requests: "write", statuses: "write", deployments: "write" };
  expect(await lacks({ token })).toEqual([]);
  logins.permissions = { pull_requests: "write", statuses: "read", deployments: "write" };
  expect(await lacks({ token })).toEqual(["commit statuses"]);
  logins.classic = true;
  expect(await lacks({ token })).toEqual(["commit statuses"]);
  logins.permissions = { pull_requests: "write", statuses: "write" };
  expect(await lacks({ token })).toEqual(["deployments"]);
  expect([host.repository.statuses, host.repository.comments, host.repository.deployments]).toEqual([[], [], []]);

  const asApp = await useGithubHost({ as: "app" });
  const ofApp = (reportAs?: "checks" | "statuses", deployments = false) =>
    findWriteAccess(
      { kind: "github", apiUrl: asApp.apiUrl, login: { app: asApp.logins.app }, reportAs, deployments, log: silentLog },
      asApp.repoName,
    );
  const { installation } = asApp.logins;
  Object.assign(installation!, { permissions: { pull_requests: "write", checks: "write" } });
  expect(await ofApp()).toEqual({ lacks: [], shows: "check runs" });
  expect(await ofApp("statuses")).toEqual({ lacks: ["commit statuses"], shows: "commit statuses" });
  Object.assign(installation!, { permissions: { pull_requests: "write", statuses: "write" } });
  expect(await ofApp()).toMatchObject({
    lacks: [],
    shows: "commit statuses",
    advice: expect.stringContaining("Checks: read and write") as string,
  });
  expect(await ofApp("checks")).toEqual({ lacks: ["check runs"], shows: "check runs" });
  expect(await ofApp(undefined, true)).toMatchObject({ lacks: ["deployments"] });
  Object.assign(installation!, { permissions: { pull_requests: "read", statuses: "write" } });
  expect(await ofApp()).toMatchObject({ lacks: ["comments"] });
});
