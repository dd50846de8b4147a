import { expect, test } from "vitest";
import { changed, created, linesOf, objectOf, update } from "./find.ts";

const pod = (spec: object, container: object = {}) => ({
  spec: { containers: [{ name: "web", image: "web:1", ...container }], ...spec },
});
const secured = (securityContext: object) => pod({}, { securityContext });
const adding = (...add: readonly string[]) => secured({ capabilities: { add } });
const mounting = (...paths: readonly string[]) =>
  pod({ volumes: paths.map((path, i) => ({ name: `v${i}`, hostPath: { path } })) });

const plain = pod({});

test.each([
  [plain, pod({ hostNetwork: true }), "its pods use the network of their node"],
  [plain, pod({ hostPID: true }), "its pods see the processes of their node"],
  [plain, pod({ hostIPC: true }), "its pods share memory with processes of their node"],
  [plain, mounting("/etc"), "its pods can access a directory of their node (hostPath)"],
  [mounting("/var"), mounting("/var", "/etc"), "its pods can access a directory of their node (hostPath)"],
  [plain, secured({ privileged: true }), "a container becomes privileged"],
  [plain, secured({ allowPrivilegeEscalation: true }), "a container may escalate its privileges"],
  [secured({ allowPrivilegeEscalation: false }), plain, "a container may escalate its privileges"],
  [plain, adding("SYS_ADMIN"), "a container gets a dangerous capability"],
  [adding("CHOWN"), adding("CHOWN", "cap_net_admin"), "a container gets a dangerous capability"],
  [plain, adding("ALL"), "a container gets a dangerous capability"],
  [plain, adding("NET_BIND_SERVICE"), undefined],
  [adding("ALL"), adding("SYS_ADMIN"), undefined],
  [secured({ runAsNonRoot: true }), plain, "a container may run as root"],
  [secured({ runAsNonRoot: true }), secured({ runAsNonRoot: false }), "a container may run as root"],
  [pod({ securityContext: { runAsNonRoot: true } }), plain, "a container may run as root"],
  [pod({ securityContext: { runAsNonRoot: true } }), secured({ runAsNonRoot: true }), undefined],
  [secured({ runAsUser: 1000 }), secured({ runAsUser: 0 }), "a container may run as root"],
  [mounting("/etc"), mounting("/etc"), undefined],
  [pod({ hostNetwork: true }), pod({ hostNetwork: true }), undefined],
  [pod({ hostNetwork: true }), plain, undefined],
  [secured({ privileged: true }), secured({ privileged: true }), undefined],
  [plain, pod({ hostNetwork: "true" }), undefined], // which the API server rejects
])("a change of what pods may do is described: %j → %j", (before, after, text) => {
  expect(linesOf(changed("/Pod", before, after)).filter((line) => !line.startsWith("immutable"))).toEqual(
    text === undefined ? [] : [`security: ${text}`],
  );
});

test("for a new workload, all that it uses counts, and what it leaves out does not", () => {
  const context = { privileged: true, allowPrivilegeEscalation: true, runAsUser: 0, capabilities: { add: ["BPF"] } };
  const containers = ["a", "b"].map((name) => ({ name, image: "web:1", securityContext: context }));
  const volumes = [{ name: "v", hostPath: { path: "/" } }];
  const spec = { hostNetwork: true, hostPID: true, hostIPC: true, containers, volumes };
  expect(linesOf(created("apps/DaemonSet", { spec: { template: { spec } } }))).toEqual([
    "security: its pods use the network of their node",
    "security: its pods see the processes of their node",
    "security: its pods share memory with processes of their node",
    "security: its pods can access a directory of their node (hostPath)",
    "security: 2 containers become privileged",
    "security: 2 containers may escalate their privileges",
    "security: 2 containers get dangerous capabilities",
    "security: 2 containers may run as root",
  ]);
  expect(linesOf(created("/Pod", plain))).toEqual([]);
});

test("where a state is missing, the changes are used", () => {
  const at = "spec.template.spec";
  const changes = [update(`${at}.hostNetwork`, true, false), update(`${at}.securityContext.runAsNonRoot`, false, true)];
  expect(linesOf(objectOf("apps/Deployment", { changes }))).toEqual([
    "security: its pods use the network of their node",
    "security: its pods may run as root",
  ]);
});
