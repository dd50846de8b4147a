import { expect, test } from "vitest";
import { changed, created, linesOf, objectOf, update } from "./find.ts";

const pod = (spec: object, container: object = {}) => ({
  spec: { containers: [{ name: "web", image: "web:1", ...container }], ...spec },
});
const secured = (securityContext: object) => pod({}, { securityContext });
const adding = (...add: readonly string[]) => secured({ capabilities: { add } });
const mounting = (...paths: readonly string[]) =>
  pod({ volumes: paths.map((path, i) => ({ name: `v${i}`, hostPath: { path } })) });

const dropping = (...drop: readonly string[]) => secured({ capabilities: { drop } });
const seccompOf = (type: string) => ({ securityContext: { seccompProfile: { type } } });
const seccomp = (type: string) => pod({}, seccompOf(type));
const exposing = (...ports: readonly number[]) =>
  pod({}, { ports: ports.map((hostPort) => ({ containerPort: 80, hostPort })) });

const plain = pod({});

test.each([
  [plain, pod({ hostNetwork: true }), "its pods use the network of their node"],
  [plain, pod({ hostPID: true }), "its pods see the processes of their node"],
  [plain, pod({ hostIPC: true }), "its pods share memory with processes of their node"],
  [plain, mounting("/etc"), "its pods can access a directory of their node (hostPath)"],
  [mounting("/var"), mounting("/var", "/etc"), "its pods can access a directory of their node (hostPath)"],
  [plain, secured({ privileged: true }), "a container becomes privileged"],
  [plain, secured({ allowPrivilegeEscalation: true }), undefined], // the default
  [
    secured({ allowPrivilegeEscalation: false }),
    secured({ allowPrivilegeEscalation: true }),
    "a container may escalate its privileges",
  ],
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
  [secured({ runAsNonRoot: true, runAsUser: 1000 }), secured({ runAsUser: 1000 }), undefined],
  [secured({ runAsNonRoot: true }), pod({ securityContext: { runAsUser: 1000 } }), undefined],
  [secured({ runAsNonRoot: true, runAsUser: 1000 }), plain, "a container may run as root"],
  [secured({ runAsNonRoot: true, runAsUser: 1000 }), secured({ runAsUser: 0 }), "a container may run as root"],
  [dropping("ALL"), plain, "a container no longer drops all capabilities"],
  [dropping("all"), dropping("NET_RAW"), "a container no longer drops all capabilities"],
  [dropping("NET_RAW"), plain, undefined],
  [plain, dropping("ALL"), undefined],
  [plain, seccomp("Unconfined"), "a container runs without a seccomp filter"],
  [seccomp("RuntimeDefault"), pod(seccompOf("Unconfined")), "a container runs without a seccomp filter"],
  [pod(seccompOf("Unconfined")), seccomp("Unconfined"), undefined],
  [plain, pod(seccompOf("Unconfined"), seccompOf("RuntimeDefault")), undefined],
  [plain, seccomp("RuntimeDefault"), undefined],
  [plain, secured({ procMount: "Unmasked" }), "a container has an unmasked proc file system"],
  [secured({ procMount: "Unmasked" }), secured({ procMount: "Default" }), undefined],
  [plain, exposing(80), "its pods use a port of their node (hostPort)"],
  [exposing(80), exposing(80, 443), "its pods use a port of their node (hostPort)"],
  [exposing(80), exposing(80), undefined],
  [plain, exposing(0), undefined],
  [plain, pod({}, { ports: [{ containerPort: 80 }] }), undefined],
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

test("for a new workload, all that it uses counts, the gravest first, and what it leaves out does not", () => {
  const securityContext = {
    privileged: true,
    allowPrivilegeEscalation: true,
    runAsUser: 0,
    capabilities: { add: ["BPF"] },
    procMount: "Unmasked",
    seccompProfile: { type: "Unconfined" },
  };
  const ports = [{ containerPort: 80, hostPort: 80 }];
  const containers = ["a", "b"].map((name) => ({ name, image: "web:1", securityContext, ports }));
  const volumes = [{ name: "v", hostPath: { path: "/" } }];
  const daemons = (spec: object) => created("apps/DaemonSet", { spec: { template: { spec } } });
  const graver = [
    "security: 2 containers become privileged",
    "security: 2 containers get dangerous capabilities",
    "security: its pods can access a directory of their node (hostPath)",
    "security: its pods see the processes of their node",
  ];
  const lesser = [
    "security: its pods share memory with processes of their node",
    "security: 2 containers have unmasked proc file systems",
    "security: 2 containers run without a seccomp filter",
    "security: 2 containers may run as root",
  ];
  const spec = { hostPID: true, hostIPC: true, containers, volumes };
  expect(linesOf(daemons(spec))).toEqual([
    ...graver,
    ...lesser,
    "security: its pods use a port of their node (hostPort)",
  ]);
  expect(linesOf(daemons({ ...spec, hostNetwork: true }))).toEqual([
    ...graver,
    "security: its pods use the network of their node", // and with it all its ports
    ...lesser,
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
