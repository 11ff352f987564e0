/* dataset_dir.c - where a data set's files are looked for. */
#include <stdlib.h>

#include <vivace/ext/data_files.h>
#include <vivace/memory.h>

#include "base/file.h"
#include "data/data_file.h"

vv_status vvi_dataset_home(char **out, const char *name)
{
    const char *root = getenv("VIVACE_DATA");
    *out = NULL;
    return root && root[0] ? vvi_path_join(out, root, name) : VV_OK;
}

vv_status vv_dataset_find_dir(char **out, const char *dir_option, const char *name,
                              const char *system_dir)
{
    vv_status status;
    char *home = NULL;
    *out = NULL;
    if (dir_option && dir_option[0]) {
        if (vvi_is_folder(dir_option))
            return vv_strdup(out, dir_option);
        return vv_fail(VV_ENOTFOUND,
                       "data set %s: folder %s does not exist; correct its setting dir "
                       "or leave it empty",
                       name, dir_option);
    }
    VV_GO(vvi_dataset_home(&home, name));
    if (home && vvi_is_folder(home)) {
        *out = home;
        return VV_OK;
    }
    if (system_dir && vvi_is_folder(system_dir)) {
        status = vv_strdup(out, system_dir);
        goto out;
    }
    status = vv_fail(VV_ENOTFOUND,
                     "data set %s: no data in %s%s%s; get it with `vivace data fetch %s` (with "
                     "VIVACE_DATA set to the folder for data sets), or name its folder with dir=",
                     name, home ? home : "$VIVACE_DATA (not set)", system_dir ? " or " : "",
                     system_dir ? system_dir : "", name);
out:
    vv_dealloc(home);
    return status;
}

vv_status vv_data_file_find(char **out, const char *dir, const char *name)
{
    static const char *const endings[] = {"", ".gz", ".zst"};
    *out = NULL;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        vv_str path = {0};
        vv_str_addf(&path, "%s/%s%s", dir, name, endings[i]);
        vv_status status = vv_str_status(&path);
        const bool found = status == VV_OK && vvi_exists(vv_str_text(&path));
        if (found)
            status = vv_strdup(out, vv_str_text(&path));
        vv_str_fini(&path);
        if (found || status != VV_OK)
            return status;
    }
    return vv_fail(VV_ENOTFOUND, "%s: no file %s in it (nor %s.gz or %s.zst)", dir, name, name,
                   name);
}
