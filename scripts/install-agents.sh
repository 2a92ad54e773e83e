#!/usr/bin/env bash
# Installs the real agent command lines, pinned, into a cache of their own for the tests in
# tests/agents. Nothing global is touched. Running it again costs nothing.
#
#   scripts/install-agents.sh [AGENT...]      default: claude codex gemini (opencode too, on request)
#   HOLDFAST_AGENTS_DIR   where they go (default ${XDG_CACHE_HOME:-~/.cache}/holdfast-agents)
#
# Each agent has its own npm prefix: <dir>/<agent>/node_modules/.bin/<agent>.
set -euo pipefail

dir=${HOLDFAST_AGENTS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast-agents}

pinned() { # agent -> npm package at its pinned version
  case $1 in
    claude) echo "@anthropic-ai/claude-code@2.1.197" ;;
    codex) echo "@openai/codex@0.166.0" ;;
    gemini) echo "@google/gemini-cli@0.61.0" ;;
    opencode) echo "opencode-ai@1.18.33" ;;
    *) echo "install-agents: unknown agent '$1' (known: claude codex gemini opencode)" >&2; return 2 ;;
  esac
}

installed_version() { # npm prefix, package name -> its version, or nothing
  node -p "require(process.argv[1]).version" "$1/node_modules/$2/package.json" 2>/dev/null || true
}

install_agent() {
  local agent=$1 wanted name version prefix found
  wanted=$(pinned "$agent")
  name=${wanted%@*} version=${wanted##*@} prefix=$dir/$agent
  found=$(installed_version "$prefix" "$name")
  if [ "$found" != "$version" ]; then
    mkdir -p "$prefix"
    if ! npm install --prefix "$prefix" --no-audit --no-fund --loglevel=error "$wanted" >&2; then
      echo "install-agents: $wanted can't be installed; trying the newest $name" >&2
      npm install --prefix "$prefix" --no-audit --no-fund --loglevel=error "$name" >&2
    fi
    found=$(installed_version "$prefix" "$name")
  fi
  printf '%-8s %-10s %s\n' "$agent" "$found" "$prefix/node_modules/.bin/$agent"
  [ -x "$prefix/node_modules/.bin/$agent" ]
}

command -v npm >/dev/null || { echo "install-agents: npm is needed (https://nodejs.org)" >&2; exit 1; }
[ $# -gt 0 ] || set -- claude codex gemini
for agent in "$@"; do install_agent "$agent"; done
