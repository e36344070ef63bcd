"""Node and npm without a network: scripts, packages from local archives, private caches (QLT-1, BND-11)."""

from __future__ import annotations

import pytest
from tests.ordinary.kit import Case, Ground, cases

pytestmark = pytest.mark.clause("QLT-1", "BND-11")

PACKAGE = '{"name": "dep", "version": "1.0.0", "main": "i.js", "bin": {"dep-says": "i.js"}}'
MAIN = "#!/usr/bin/env node\nmodule.exports = 42; if (require.main === module) console.log('bin ran');\n"

NODE = {
    "its_own_library": Case(
        "node server.js",
        says=["thread", "pong", "piped", "3", "served", "unix\nunix", "saw watched.txt", "done true true"],
        leaves=["watched.txt", "made"],
        programs=["server.js"],
        needs=["node"],
        limit_s=30,
    ),
    "modules_and_its_test_runner": Case(
        """
            node --input-type=module -e 'import fs from "node:fs"; console.log(fs.existsSync("file.txt"))'
            node --test some.test.mjs
            node -p 'require("os").homedir() === process.env.HOME'
        """,
        says=["true", "pass 1", "true"],
        files={"some.test.mjs": "import test from 'node:test'; test('it', () => {});\n"},
        needs=["node"],
    ),
    "packages": Case(
        """
            cd dep
            npm pack --silent --pack-destination ..
            cd ..
            npm init -y --silent >/dev/null
            npm install --offline --no-audit --no-fund --silent ./dep-1.0.0.tgz
            node -p 'require("dep")'
            npx --no-install dep-says
            npm pkg set scripts.t='dep-says && echo script ran'
            npm run -s t
            npm ls --depth=0
            npm config get cache
            rm -rf node_modules
            npm ci --offline --no-audit --no-fund --silent
            npm exec --no -- dep-says
            npm cache verify
        """,
        says=["42", "bin ran", "bin ran\nscript ran", "dep@1.0.0", "/.cache/npm", "bin ran", "Cache verified"],
        files={"dep/package.json": PACKAGE, "dep/i.js": MAIN},
        leaves=["dep-1.0.0.tgz", "package.json", "package-lock.json", "node_modules"],
        needs=["node", "npm"],
        slow=True,
        limit_s=120,
    ),
}


@cases(NODE)
def test_node(ground: Ground, case: Case) -> None:
    ground.does(case)
