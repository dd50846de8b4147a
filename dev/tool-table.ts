/** The programs of the local world: the accepted versions, and how to build the pinned one. */

export interface Tool {
  readonly name: ToolName;
  /** Environment variable that names the program to use. */
  readonly variable: string;
  /** Its names on PATH. */
  readonly commands: readonly string[];
  /** Arguments that make it print its version. */
  readonly versionArgs: readonly string[];
  /** From (inclusive) and below (exclusive); a program on PATH with another version is ignored. */
  readonly versions: { readonly from: string; readonly below: string };
  /** Must match the version output of a program on PATH. */
  readonly needs?: RegExp;
  readonly build?: GoBuild;
  /** Debian's package, for a program that is not built. */
  readonly debian?: string;
}

/** A build from Go modules with the go.mod and go.sum of `dev/tools/<folder>`. */
export interface GoBuild {
  readonly folder: string;
  /** The folder is one of the checkout and holds the program itself: it is built again when its files change. */
  readonly own?: true;
  readonly version: string;
  readonly package: string;
  /** The module whose version `go.mod` pins, and the folders of it that the program needs at run time. */
  readonly data?: { readonly module: string; readonly folders: readonly string[] };
  /**
   * Files that the program embeds but the module does not contain, by path. It is built from a copy of the module with
   * these files.
   */
  readonly lacks?: { readonly module: string; readonly files: Readonly<Record<string, string>> };
  readonly cgo?: true;
  readonly tags?: string;
  readonly ldflags?: string;
  /** Go's name of the architecture; this machine's own if absent. */
  readonly architecture?: "amd64" | "arm64" | undefined;
  /** Build time on two cores with an empty download cache. */
  readonly aboutSeconds: number;
}

export const toolNames = [
  "kluctl",
  "etcd",
  "kube-apiserver",
  "kube-controller-manager",
  "kube-scheduler",
  "kubectl",
  "kubelet",
  "kube-proxy",
  "coredns",
  "containerd",
  "iptables",
  "cilium-agent",
  "cilium-cni",
  "clang",
  "bpftool",
  "ipset",
  "kwok",
  "gitea",
  "helm",
  "helm4",
  "redis-server",
  "ssh",
  "chromium",
  "zsh",
  "fish",
  "promtool",
  "actionlint",
  "docker-buildx",
  "docker-compose",
  "flux",
  "source-controller",
  "kustomize-controller",
  "helm-controller",
  "argocd",
  "cosign",
  "towline-flux",
] as const;

export type ToolName = (typeof toolNames)[number];

const versionPackage = "k8s.io/component-base/version";

/**
 * Version 1.32, because kluctl 2.22 reports a deprecation warning of newer servers in every result. `aboutSeconds` of
 * the first one includes the code that all four share.
 */
function kubernetes(name: ToolName, versionArgs: readonly string[], aboutSeconds: number): Tool {
  return {
    name,
    variable: `TOWLINE_${name.toUpperCase().replaceAll("-", "_")}`,
    commands: [name],
    versionArgs,
    versions: { from: "1.31.0", below: "1.33.0" },
    build: {
      folder: "kubernetes",
      version: "1.32.2",
      package: `k8s.io/kubernetes/cmd/${name}`,
      ldflags: `-X ${versionPackage}.gitVersion=v1.32.2 -X ${versionPackage}.gitMajor=1 -X ${versionPackage}.gitMinor=32`,
      aboutSeconds,
    },
  };
}

/**
 * 1.15 is the last version whose modules are all available. It is always built, because the agent compiles sources of
 * its module at run time.
 */
function cilium(name: ToolName, folder: string, aboutSeconds: number, folders: readonly string[] = []): Tool {
  const version = "1.15.19";
  const module = "github.com/cilium/cilium";
  return {
    name,
    variable: `TOWLINE_${name.toUpperCase().replaceAll("-", "_")}`,
    commands: [],
    versionArgs: ["--version"],
    versions: { from: "1.15.0", below: "1.16.0" },
    build: {
      folder: "cilium",
      version,
      package: `${module}/${folder}`,
      ...(folders.length > 0 && { data: { module, folders } }),
      tags: "osusergo",
      ldflags: `-X ${module}/pkg/version.ciliumVersion=${version}`,
      aboutSeconds,
    },
  };
}

/** Includes the CRDs. It is always built, because the program does not report its version. */
function fluxController(name: ToolName, version: string, aboutSeconds: number): Tool {
  const module = `github.com/fluxcd/${name}`;
  return {
    name,
    variable: `TOWLINE_${name.toUpperCase().replaceAll("-", "_")}`,
    commands: [],
    versionArgs: ["--help"],
    versions: { from: "1.0.0", below: "2.0.0" },
    build: { folder: name, version, package: module, data: { module, folders: ["config/crd/bases"] }, aboutSeconds },
  };
}

/** The Kubernetes version that charts are rendered for without a cluster; otherwise Helm would assume 1.20. */
const helmFor = ["pkg/chartutil.k8sVersion", "pkg/lint/rules.k8sVersion"].map(
  (name) => `-X helm.sh/helm/v3/${name}Major=1 -X helm.sh/helm/v3/${name}Minor=32`,
);

export const tools: Readonly<Record<ToolName, Tool>> = {
  kluctl: {
    name: "kluctl",
    variable: "TOWLINE_KLUCTL",
    commands: ["kluctl"],
    versionArgs: ["version"],
    versions: { from: "2.22.1", below: "3.0.0" },
    build: {
      folder: "kluctl",
      version: "2.22.1",
      package: "github.com/kluctl/kluctl/v2/cmd",
      ldflags: "-X main.version=2.22.1",
      aboutSeconds: 180,
    },
  },
  etcd: {
    name: "etcd",
    variable: "TOWLINE_ETCD",
    commands: ["etcd"],
    versionArgs: ["--version"],
    versions: { from: "3.5.13", below: "4.0.0" }, // older ones lack RequestWatchProgress
    build: { folder: "etcd", version: "3.6.8", package: "go.etcd.io/etcd/server/v3", aboutSeconds: 60 },
  },
  "kube-apiserver": kubernetes("kube-apiserver", ["--version"], 180),
  "kube-controller-manager": kubernetes("kube-controller-manager", ["--version"], 40),
  "kube-scheduler": kubernetes("kube-scheduler", ["--version"], 15),
  kubectl: kubernetes("kubectl", ["version", "--client"], 20),
  kubelet: kubernetes("kubelet", ["--version"], 40),
  "kube-proxy": kubernetes("kube-proxy", ["--version"], 15),
  coredns: {
    name: "coredns",
    variable: "TOWLINE_COREDNS",
    commands: ["coredns"],
    versionArgs: ["-version"],
    versions: { from: "1.11.0", below: "2.0.0" },
    build: { folder: "coredns", version: "1.13.1", package: "github.com/coredns/coredns", aboutSeconds: 90 },
  },
  containerd: {
    name: "containerd",
    variable: "TOWLINE_CONTAINERD",
    commands: ["containerd"],
    versionArgs: ["--version"],
    versions: { from: "1.6.0", below: "2.0.0" }, // version 2 has another configuration format
    debian: "containerd",
  },
  iptables: {
    name: "iptables",
    variable: "TOWLINE_IPTABLES",
    commands: ["iptables"],
    versionArgs: ["--version"],
    versions: { from: "1.8.0", below: "2.0.0" },
    debian: "iptables",
  },
  "cilium-agent": cilium("cilium-agent", "daemon", 300, ["bpf", "pkg/k8s/apis/cilium.io/client/crds"]),
  "cilium-cni": cilium("cilium-cni", "plugins/cilium-cni", 20),
  clang: {
    name: "clang",
    variable: "TOWLINE_CLANG",
    commands: ["clang-19", "clang"],
    versionArgs: ["--version"],
    versions: { from: "17.0.0", below: "20.0.0" },
    debian: "clang-19",
  },
  bpftool: {
    name: "bpftool",
    variable: "TOWLINE_BPFTOOL",
    commands: ["bpftool"],
    versionArgs: ["version"],
    versions: { from: "5.10.0", below: "100.0.0" },
    debian: "bpftool",
  },
  ipset: {
    name: "ipset",
    variable: "TOWLINE_IPSET",
    commands: ["ipset"],
    versionArgs: ["--version"],
    versions: { from: "7.0", below: "8.0" },
    debian: "ipset",
  },
  kwok: {
    name: "kwok",
    variable: "TOWLINE_KWOK",
    commands: ["kwok"],
    versionArgs: ["--version"],
    versions: { from: "0.7.0", below: "0.9.0" },
    build: { folder: "kwok", version: "0.8.0", package: "sigs.k8s.io/kwok/cmd/kwok", aboutSeconds: 60 },
  },
  gitea: {
    name: "gitea",
    variable: "TOWLINE_GITEA",
    commands: ["gitea"],
    versionArgs: ["--version"],
    versions: { from: "1.22.0", below: "2.0.0" },
    needs: /bindata.*sqlite|sqlite.*bindata/, // a release embeds its templates and SQLite
    build: {
      folder: "gitea",
      version: "1.26.0",
      package: "code.gitea.io/gitea",
      data: { module: "code.gitea.io/gitea", folders: ["templates", "options", "public"] },
      cgo: true,
      tags: "sqlite sqlite_unlock_notify",
      ldflags: "-X main.Version=1.26.0",
      aboutSeconds: 210,
    },
  },
  helm: {
    name: "helm",
    variable: "TOWLINE_HELM",
    commands: ["helm"],
    versionArgs: ["version", "--short"],
    versions: { from: "3.14.0", below: "4.0.0" },
    build: {
      folder: "helm",
      version: "3.22.0",
      package: "helm.sh/helm/v3/cmd/helm",
      ldflags: `-X helm.sh/helm/v3/internal/version.version=v3.22.0 ${helmFor.join(" ")}`,
      aboutSeconds: 180,
    },
  },
  helm4: {
    name: "helm4",
    variable: "TOWLINE_HELM4",
    commands: ["helm"],
    versionArgs: ["version", "--short"],
    versions: { from: "4.0.0", below: "5.0.0" },
    build: {
      folder: "helm4",
      version: "4.3.1",
      package: "helm.sh/helm/v4/cmd/helm",
      ldflags: "-X helm.sh/helm/v4/internal/version.version=v4.3.1",
      aboutSeconds: 180,
    },
  },
  "redis-server": {
    name: "redis-server",
    variable: "TOWLINE_REDIS_SERVER",
    commands: ["redis-server", "valkey-server"],
    versionArgs: ["--version"],
    versions: { from: "6.2.0", below: "100.0.0" },
    debian: "redis-server",
  },
  chromium: {
    name: "chromium",
    variable: "TOWLINE_CHROMIUM",
    commands: ["chromium", "chromium-browser", "google-chrome"],
    versionArgs: ["--version"],
    versions: { from: "120.0.0", below: "1000.0.0" },
    debian: "chromium",
  },
  zsh: {
    name: "zsh",
    variable: "TOWLINE_ZSH",
    commands: ["zsh"],
    versionArgs: ["--version"],
    versions: { from: "5.0", below: "100.0" },
  },
  fish: {
    name: "fish",
    variable: "TOWLINE_FISH",
    commands: ["fish"],
    versionArgs: ["--version"],
    versions: { from: "3.1", below: "100.0" },
  },
  promtool: {
    name: "promtool",
    variable: "TOWLINE_PROMTOOL",
    commands: ["promtool"],
    versionArgs: ["--version"],
    versions: { from: "3.0.0", below: "4.0.0" },
    build: {
      folder: "prometheus",
      version: "3.11.3",
      package: "github.com/prometheus/prometheus/cmd/promtool",
      tags: "remove_all_sd", // service discovery is not tested, and is most of the code
      ldflags: "-X github.com/prometheus/common/version.Version=3.11.3",
      aboutSeconds: 180,
    },
  },
  ssh: {
    name: "ssh",
    variable: "TOWLINE_SSH",
    commands: ["ssh"],
    versionArgs: ["-V"],
    versions: { from: "8.0", below: "100.0" },
    debian: "openssh-client",
  },
  actionlint: {
    name: "actionlint",
    variable: "TOWLINE_ACTIONLINT",
    commands: ["actionlint"],
    versionArgs: ["-version"],
    versions: { from: "1.7.8", below: "2.0.0" },
    build: {
      folder: "actionlint",
      version: "1.7.12",
      package: "github.com/rhysd/actionlint/cmd/actionlint",
      aboutSeconds: 20,
    },
  },
  "docker-buildx": {
    name: "docker-buildx",
    variable: "TOWLINE_DOCKER_BUILDX",
    commands: ["docker-buildx"],
    versionArgs: ["version"],
    versions: { from: "0.17.0", below: "1.0.0" },
    build: {
      folder: "buildx",
      version: "0.30.1",
      package: "github.com/docker/buildx/cmd/buildx",
      ldflags: "-X github.com/docker/buildx/version.Version=v0.30.1",
      aboutSeconds: 120,
    },
  },
  "docker-compose": {
    name: "docker-compose",
    variable: "TOWLINE_DOCKER_COMPOSE",
    commands: ["docker-compose"],
    versionArgs: ["version", "--short"],
    versions: { from: "2.24.0", below: "100.0.0" }, // version 1 is a different program
    build: {
      folder: "compose",
      version: "2.40.3",
      package: "github.com/docker/compose/v2/cmd",
      ldflags: "-X github.com/docker/compose/v2/internal.Version=2.40.3",
      aboutSeconds: 150,
    },
  },
  flux: {
    name: "flux",
    variable: "TOWLINE_FLUX",
    commands: ["flux"],
    versionArgs: ["--version"],
    versions: { from: "2.6.0", below: "3.0.0" },
    build: {
      folder: "flux",
      version: "2.9.5",
      package: "github.com/fluxcd/flux2/v2/cmd/flux",
      // The manifests that `flux install` installs, which are generated for a release.
      lacks: { module: "github.com/fluxcd/flux2/v2", files: { "cmd/flux/manifests/none.yaml": "" } },
      ldflags: "-X main.VERSION=2.9.5",
      aboutSeconds: 210,
    },
  },
  "source-controller": fluxController("source-controller", "1.9.1", 210),
  "kustomize-controller": fluxController("kustomize-controller", "1.9.5", 150),
  "helm-controller": fluxController("helm-controller", "1.6.4", 150),
  // All of Argo CD in one program; its name decides which component runs.
  argocd: {
    name: "argocd",
    variable: "TOWLINE_ARGOCD",
    commands: [], // a release does not have the CRDs beside it
    versionArgs: ["version", "--client", "--short"],
    versions: { from: "3.0.0", below: "4.0.0" },
    build: {
      folder: "argocd",
      version: "3.5.7",
      package: "github.com/argoproj/argo-cd/v3/cmd",
      data: { module: "github.com/argoproj/argo-cd/v3", folders: ["manifests/crds", "hack/git-verify-wrapper.sh"] },
      ldflags: "-X github.com/argoproj/argo-cd/v3/common.version=3.5.7",
      aboutSeconds: 300,
    },
  },
  cosign: {
    name: "cosign",
    variable: "TOWLINE_COSIGN",
    commands: ["cosign"],
    versionArgs: ["version"],
    versions: { from: "3.0.0", below: "4.0.0" },
    build: {
      folder: "cosign",
      version: "3.1.3",
      package: "github.com/sigstore/cosign/v3/cmd/cosign",
      ldflags: "-X sigs.k8s.io/release-utils/version.gitVersion=v3.1.3",
      aboutSeconds: 150,
    },
  },
  "towline-flux": {
    name: "towline-flux",
    variable: "TOWLINE_FLUX_RENDERER",
    commands: [], // what is tested is this checkout
    versionArgs: ["--version"],
    versions: { from: "1.9.0", below: "1.10.0" }, // those of kustomize-controller
    build: { folder: "flux-render", own: true, version: "1.9.5", package: ".", aboutSeconds: 60 },
  },
};
