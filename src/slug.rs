//! A device's name as a folder.

/// Returns a name in lower case, everything but letters and digits a dash: `nvidia-h200`.
#[must_use]
pub fn slug(name: &str) -> String {
    let dashed: String = name
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect();
    let parts: Vec<&str> = dashed.split('-').filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        String::from("unnamed")
    } else {
        parts.join("-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_safe_folder_names() {
        assert_eq!(slug("NVIDIA H200"), "nvidia-h200");
        assert_eq!(slug("Tesla T4 (rev. 2)"), "tesla-t4-rev-2");
        assert_eq!(slug("../<script>"), "script");
        assert_eq!(slug("///"), "unnamed");
    }
}
